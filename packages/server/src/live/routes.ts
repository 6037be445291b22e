/**
 * The HTTP routes of Live: parse, call the service or the hub, render. Called by the router.
 *
 * Invariants: another subject's session looks exactly like one that does not exist. A connection counts against the limit of the
 * audience before the session is looked at, and is drained with it.
 */
import { formatOffset, header, parseOffset } from "@sluice/protocol";
import type { z } from "zod";
import type { Audience } from "../core/audience.ts";
import type { Headers, HttpRequest, Reply } from "../core/http.ts";
import { badBody, checkedJson, jsonBody, parseJson } from "../core/json-body.ts";
import { Refusal } from "../core/refusal.ts";
import type { CallTo } from "../core/route.ts";
import type { Sink } from "../core/sink.ts";
import type { Socket } from "../core/socket.ts";
import { sseHeaders } from "../core/sse.ts";
import { unreadable } from "../streams/refusals.ts";
import type { Streams } from "../streams/service.ts";
import { AskedFrames } from "./asked-frames.ts";
import {
  endedSubscription,
  endedSubscriptionFrame,
  heartbeat,
  heartbeatFrame,
  mint,
  newSubscription,
  newSubscriptionFrame,
} from "./bodies.ts";
import type { LiveLimits } from "./defaults.ts";
import { SOCKET_WIRE, SSE_WIRE } from "./events.ts";
import type { Hub } from "./hub.ts";
import type { Processed } from "./pointer-rules.ts";
import type { Presence } from "./presence.ts";
import type { Live } from "./service.ts";
import type { Pointer } from "./state.ts";
import type { Admitted } from "./tab.ts";

export const SESSIONS_ADDRESS = "/v1/{project}/sessions";
export const SUBSCRIPTIONS_ADDRESS = "/v1/{project}/subscriptions";
export const HEARTBEAT_ADDRESS = "/v1/{project}/heartbeat";
export const OFFSETS_ADDRESS = "/v1/{project}/session-offsets/{session}";
export const PRESENCE_ADDRESS = "/v1/{project}/presence/{path}";
export const LIVE_ADDRESS = "/v1/{project}/live/{session}";

type ProjectCall = CallTo<typeof SESSIONS_ADDRESS>;
type PresenceCall = CallTo<typeof PRESENCE_ADDRESS>;
type SessionCall = CallTo<typeof LIVE_ADDRESS>;

export interface LiveRouteParts {
  readonly live: Live;
  readonly hub: Hub;
  readonly audience: Audience;
  readonly streams: Streams;
  readonly presence: Presence;
  readonly limits: Pick<LiveLimits, "bodyBytes">;
  readonly report: (what: string, fault: unknown) => void;
}

export class LiveRoutes {
  constructor(private readonly parts: LiveRouteParts) {}

  async mint({ project, access }: ProjectCall, request: HttpRequest): Promise<Reply> {
    const { bodyBytes } = this.parts.limits;
    const body = await request.body(bodyBytes);
    if (body.kind === "too-large") throw new Refusal("too-large", `a body may have at most ${bodyBytes} bytes`);
    // A request without a body asks for a new session, as an empty object does.
    const { sessionId: asked } = body.bytes.length === 0 ? {} : checkedJson(mint, parseJson(body.bytes).value);
    const { isNew, sessionId, token, expiresAt } = await this.parts.live.mint(project, asked, access);
    return json({ sessionId, token, expiresAt }, isNew ? 201 : 200);
  }

  async subscribe({ project, access }: ProjectCall, request: HttpRequest): Promise<Reply> {
    const asked = await jsonBody(request, this.parts.limits.bodyBytes, newSubscription);
    return json(subscribedBody(asked.streamId, await this.parts.live.subscribe(project, asked, access)));
  }

  async unsubscribe({ project, access }: ProjectCall, request: HttpRequest): Promise<Reply> {
    const ended = await jsonBody(request, this.parts.limits.bodyBytes, endedSubscription);
    await this.parts.live.unsubscribe(project, ended, access);
    return { status: 204, headers: [] };
  }

  async heartbeat({ project, access }: ProjectCall, request: HttpRequest): Promise<Reply> {
    const { sessionId, offsets } = await jsonBody(request, this.parts.limits.bodyBytes, heartbeat);
    return json(await this.parts.live.heartbeat(project, sessionId, parseWords(offsets), access));
  }

  async offsets({ project, session, access }: SessionCall): Promise<Reply> {
    return json(await this.parts.live.offsets(project, session, access));
  }

  async presence({ project, stream }: PresenceCall): Promise<Reply> {
    const described = await this.parts.streams.describe(project, stream);
    if (described.kind !== "live") throw unreadable(described, stream);
    return json({ members: await this.parts.presence.members(project, stream) });
  }

  private talk(admitted: Admitted, socket: Socket, leave: () => void): void {
    const tab = this.parts.hub.open(admitted, socket, SOCKET_WIRE, leave);
    const { project, sessionId, access } = admitted;
    const { live, report } = this.parts;
    const own = (given: string | undefined) => {
      if (given !== undefined && given !== sessionId) throw badBody("sessionId must be that of this connection");
    };
    const asked = new AskedFrames(socket, (answer) => tab.send(answer), report);
    asked.on("subscribe", newSubscriptionFrame, async ({ sessionId: given, ...wanted }) => {
      own(given);
      return subscribedBody(wanted.streamId, await live.subscribe(project, { ...wanted, sessionId }, access));
    });
    asked.on("unsubscribe", endedSubscriptionFrame, async ({ sessionId: given, ...ended }) => {
      own(given);
      await live.unsubscribe(project, { ...ended, sessionId }, access);
      return {};
    });
    asked.on("heartbeat", heartbeatFrame, async ({ sessionId: given, offsets }) => {
      own(given);
      return live.heartbeat(project, sessionId, parseWords(offsets), access);
    });
  }

  async connect({ project, session, access }: SessionCall, request: HttpRequest): Promise<Reply> {
    const leave = this.parts.audience.enter(project, request);
    try {
      const admitted = await this.parts.hub.admit(project, session, access);
      if (request.isUpgrade) {
        const socket = (given: Socket) => this.talk(admitted, given, leave);
        return { status: 101, headers: [], socket };
      }
      const live = (sink: Sink) => void this.parts.hub.open(admitted, sink, SSE_WIRE, leave);
      return { status: 200, headers: sseHeaders(), live };
    } catch (fault) {
      leave();
      throw fault;
    }
  }
}

function subscribedBody(streamId: string, { epoch, at }: Pointer): object {
  return { streamId, epoch, offset: formatOffset(at) };
}

type Offsets = z.output<typeof heartbeat>["offsets"];

function parseWords(offsets: Offsets): readonly Processed[] {
  return offsets.map(({ streamId, lastOffset, epoch }, i) => {
    const at = parseOffset(lastOffset);
    if (at === undefined) throw badBody(`offsets[${i}].lastOffset must be an offset that this server has given out`);
    return { stream: streamId, at, epoch };
  });
}

function json(value: object, status = 200): Reply {
  const headers: Headers = [header.contentType, "application/json", header.cacheControl, "no-store"];
  return { status, headers, body: JSON.stringify(value) };
}
