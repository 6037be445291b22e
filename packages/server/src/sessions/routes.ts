/**
 * The HTTP routes of sessions: parse, call the service, render. Called by the router. Clients read the inbox of a
 * session through the routes of streams.
 *
 * Invariants: another subject's session looks exactly like one that does not exist, except to a caller that subscribes
 * with its id.
 */
import { BEGINNING, errors, formatOffset, header, NOW, parseOffset } from "@sluice/protocol";
import type { Headers, HttpRequest, Reply } from "../core/http.ts";
import { jsonBody } from "../core/json-body.ts";
import { Refusal } from "../core/refusal.ts";
import type { CallTo } from "../core/route.ts";
import type { World } from "../core/world.ts";
import type { StreamLimits } from "../streams/defaults.ts";
import { absent, unreadable } from "../streams/refusals.ts";
import { parseAppend, renderAppend } from "../streams/routes.ts";
import { session as sessionSchema, subscribe, unsubscribe } from "./bodies.ts";
import type { SessionLimits } from "./defaults.ts";
import type { Events } from "./events.ts";
import type { Published } from "./fanout.ts";
import { listSessions } from "./listing.ts";
import type { Sessions, Subscribe, SubscribeOutcome } from "./service.ts";
import type { Joined } from "./session-rules.ts";
import { sessionPath } from "./state.ts";

export const SUBSCRIBE_ADDRESS = "/v1/{project}/subscribe";
export const UNSUBSCRIBE_ADDRESS = "/v1/{project}/unsubscribe";
export const PUBLISH_ADDRESS = "/v1/{project}/publish/{path}";
export const SESSIONS_ADDRESS = "/v1/{project}/sessions";
export const SESSION_ADDRESS = "/v1/{project}/session/{session}";

type ProjectCall = CallTo<typeof SUBSCRIBE_ADDRESS>;
type PublishCall = CallTo<typeof PUBLISH_ADDRESS>;
type ListCall = CallTo<typeof SESSIONS_ADDRESS>;
type SessionCall = CallTo<typeof SESSION_ADDRESS>;

export interface RouteParts {
  readonly sessions: Sessions;
  readonly events: Events;
  readonly world: World;
  readonly limits: Pick<SessionLimits, "bodyBytes">;
  readonly streamLimits: Pick<StreamLimits, "bodyBytes">;
}

export class SessionRoutes {
  constructor(private readonly parts: RouteParts) {}

  subscribe({ project, access }: ProjectCall, request: HttpRequest): Promise<Reply> {
    return this.counted("/subscribe", request, async () => {
      const body = await jsonBody(request, this.parts.limits.bodyBytes, subscribe);
      const { sessionId, streamId } = body;
      const input = { ...body, from: parseFrom(body.from) };
      const outcome = await this.parts.sessions.subscribe(project, input, access);
      if (outcome.kind !== "joined") throw refusalOf(outcome, input);
      const { expiresAt, isNewSession } = outcome;
      return json({ sessionId, streamId, sessionStreamPath: pathOf(project, sessionId), expiresAt, isNewSession });
    });
  }

  unsubscribe({ project, access }: ProjectCall, request: HttpRequest): Promise<Reply> {
    return this.counted("/unsubscribe", request, async () => {
      const { sessionId, streamId } = await jsonBody(request, this.parts.limits.bodyBytes, unsubscribe);
      const outcome = await this.parts.sessions.unsubscribe(project, sessionId, streamId, access);
      if (outcome === "absent") throw noSession(sessionId);
      return { status: 204, headers: [] };
    });
  }

  publish({ project, stream }: PublishCall, request: HttpRequest): Promise<Reply> {
    return this.counted("/publish", request, async () => {
      const append = await parseAppend(request, this.parts.streamLimits);
      const stored = () => {
        request.waits = true;
      };
      const { outcome, copies } = await this.parts.sessions.publish(project, stream, append, stored);
      request.waits = false;
      const reply = renderAppend(outcome, stream);
      reply.headers.push(...fanoutHeaders(copies));
      return reply;
    });
  }

  /** For admins: ids, ends and numbers of subscriptions. A token that is confined to some streams may not list sessions. */
  async list({ project, access }: ListCall, { search }: HttpRequest): Promise<Reply> {
    if (access.isConfined) throw new Refusal("forbidden", "this needs a token that is not confined to some streams");
    const { found, next } = await listSessions(this.parts.sessions, project, access, search);
    return json({ sessions: found, next });
  }

  get({ project, session, access }: SessionCall, request: HttpRequest): Promise<Reply> {
    return this.counted("/session", request, async () => {
      const info = await this.parts.sessions.get(project, session, access);
      if (info === undefined) throw noSession(session);
      const subscriptions = info.subscriptions.map(({ streamId, subscription: { since, format, missed } }) => ({
        streamId,
        subscribedAt: since,
        format,
        missed: missed && { after: formatOffset(missed.after), through: formatOffset(missed.through) },
      }));
      const { expiresAt } = info;
      return json({ sessionId: session, sessionStreamPath: pathOf(project, session), expiresAt, subscriptions });
    });
  }

  touch({ project, session, access }: SessionCall, request: HttpRequest): Promise<Reply> {
    return this.counted("/session/touch", request, async () => {
      const touched = await this.parts.sessions.touch(project, session, access);
      if (touched === undefined) throw noSession(session);
      return json({ sessionId: session, ...touched });
    });
  }

  delete({ project, session, access }: SessionCall, request: HttpRequest): Promise<Reply> {
    return this.counted("/session", request, async () => {
      const outcome = await this.parts.sessions.delete(project, session, access);
      if (outcome === "absent") throw noSession(session);
      return { status: 204, headers: [] };
    });
  }

  /** Reports the request as an event when it is answered. */
  private async counted(endpoint: string, { method }: HttpRequest, work: () => Promise<Reply>): Promise<Reply> {
    const { events, world } = this.parts;
    const startedAt = world.monotonicMs();
    const told = (status: number, error = "") => {
      const latencyMs = world.monotonicMs() - startedAt;
      events.tell("http", { stream: endpoint, session: method, error, latencyMs, values: [status] });
    };
    try {
      const reply = await work();
      told(reply.status);
      return reply;
    } catch (fault) {
      if (fault instanceof Refusal) told(errors[fault.code].status, fault.code);
      else told(500, "internal");
      throw fault;
    }
  }
}

function pathOf(project: string, sessionId: string): string {
  return `/v1/${project}/stream/${sessionPath(sessionId)}`;
}

/** A session's id from its percent-encoded form. */
export function parseSessionId(id: string): string {
  let text: string;
  try {
    text = decodeURIComponent(id);
  } catch {
    text = id;
  }
  const parsed = sessionSchema.safeParse(text);
  if (!parsed.success) throw new Refusal("bad-request", "a session id must be a UUID");
  return parsed.data;
}

function parseFrom(text: string | undefined): Subscribe["from"] {
  if (text === undefined || text === NOW) return undefined;
  if (text === BEGINNING) return "beginning";
  const position = parseOffset(text);
  if (position === undefined)
    throw new Refusal(
      "bad-body",
      `from must be an offset, ${BEGINNING} or ${NOW}; got ${JSON.stringify(text.slice(0, 40))}`,
    );
  return position;
}

function fanoutHeaders({ count, successes, failures, mode }: Published): Headers {
  return [
    header.fanoutCount,
    String(count),
    header.fanoutSuccesses,
    String(successes),
    header.fanoutFailures,
    String(failures),
    header.fanoutMode,
    mode,
  ];
}

function json(value: object): Reply {
  const headers: Headers = [header.contentType, "application/json", header.cacheControl, "no-store"];
  return { status: 200, headers, body: JSON.stringify(value) };
}

function noSession(sessionId: string): Refusal {
  return new Refusal("session-not-found", `there is no session ${sessionId}`);
}

function refusalOf(outcome: Exclude<SubscribeOutcome, Joined>, { sessionId, streamId }: Subscribe): Refusal {
  switch (outcome.kind) {
    case "no-stream":
      return absent(streamId);
    case "sharded":
      return new Refusal(
        "stream-sharded",
        `${streamId} is a sharded topic, which has no single order; subscribe to its shards instead`,
      );
    case "anothers":
      return new Refusal("forbidden", `the session ${sessionId} belongs to another subject`);
    case "wrong-type":
      return new Refusal(
        "content-type-mismatch",
        `the session has ${header.contentType} ${outcome.contentType}; format "envelope" takes any stream into a JSON session`,
      );
    case "format-differs":
      return new Refusal(
        "subscription-differs",
        `the session is subscribed to ${streamId} in the other format; unsubscribe first`,
      );
    case "too-many":
      return new Refusal(
        "too-many-subscriptions",
        `the session ${sessionId} has reached the limit of subscriptions; unsubscribe from a stream first`,
      );
    default:
      return unreadable(outcome, streamId);
  }
}
