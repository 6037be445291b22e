/**
 * The HTTP routes of sessions: parse, call the service, render. The inbox of a session is read through the routes of streams,
 * once it is clear that it is the caller's.
 *
 * What must stay true: another's session looks exactly like one that does not exist, except to who subscribes with its id.
 */
import { BEGINNING, formatOffset, header, NOW, parseOffset } from "@sluice/protocol";
import type { Access } from "../core/action.ts";
import { type Headers, type HttpRequest, Refusal, type Reply } from "../core/http.ts";
import { jsonBody } from "../core/json-body.ts";
import type { World } from "../core/world.ts";
import { checkPath, refuseReserved } from "../streams/parse.ts";
import { absent, unreadable } from "../streams/refusals.ts";
import { renderAppend, type StreamRoutes } from "../streams/routes.ts";
import { STREAM_ID, session as sessionSchema, subscribe, unsubscribe } from "./bodies.ts";
import type { Events } from "./events.ts";
import type { Fanout, Published } from "./fanout.ts";
import type { SessionLimits } from "./limits.ts";
import type { Sessions, Subscribe, SubscribeOutcome } from "./service.ts";
import type { Asker, Joined } from "./session-rules.ts";
import { sessionPath } from "./state.ts";

const NO_FANOUT: Published = { mode: "inline", count: 0, successes: 0, failures: 0 };

export interface RouteParts {
  readonly sessions: Sessions;
  readonly fanout: Fanout;
  readonly streams: StreamRoutes;
  readonly events: Events;
  readonly world: World;
  readonly limits: Pick<SessionLimits, "bodyBytes">;
}

export class SessionRoutes {
  constructor(private readonly parts: RouteParts) {}

  subscribe(project: string, request: HttpRequest): Promise<Reply> {
    return this.counted("/subscribe", request, async () => {
      const body = await jsonBody(request, this.parts.limits.bodyBytes, subscribe);
      const { sessionId, streamId } = body;
      checkPath(streamId);
      refuseReserved(streamId);
      await request.access?.demand({ action: "subscribe", project, stream: streamId, session: sessionId });
      const input = { ...body, from: parseFrom(body.from) };
      const outcome = await this.parts.sessions.subscribe(project, input, askerOf(request.access));
      if (outcome.kind !== "joined") throw refusalOf(outcome, input);
      const { expiresAt, isNewSession } = outcome;
      return json({ sessionId, streamId, sessionStreamPath: pathOf(project, sessionId), expiresAt, isNewSession });
    });
  }

  unsubscribe(project: string, request: HttpRequest): Promise<Reply> {
    return this.counted("/unsubscribe", request, async () => {
      const { sessionId, streamId } = await jsonBody(request, this.parts.limits.bodyBytes, unsubscribe);
      await request.access?.demand({ action: "unsubscribe", project, stream: streamId, session: sessionId });
      const outcome = await this.parts.sessions.unsubscribe(project, sessionId, streamId, askerOf(request.access));
      if (outcome === "absent") throw noSession(sessionId);
      return { status: 204, headers: [] };
    });
  }

  publish(project: string, stream: string, request: HttpRequest): Promise<Reply> {
    return this.counted("/publish", request, async () => {
      const { streams, fanout, events, world } = this.parts;
      const startedAt = world.now();
      if (!STREAM_ID.test(stream))
        throw new Refusal(
          "bad-path",
          "the path of a stream that is published to has letters, digits, _ . : / and - only",
        );
      try {
        const outcome = await streams.appended(project, stream, request);
        const reply = renderAppend(outcome, stream);
        const isFollowed =
          (outcome.kind === "appended" || outcome.kind === "duplicate") && outcome.follow !== undefined;
        // The message is stored. Copies have limits of their own, and must not make it look as if it were not.
        request.waits = true;
        const published = isFollowed ? await fanout.publish(project, stream, outcome.next) : NO_FANOUT;
        request.waits = false;
        events.tell("publish", { stream, count: published.count, latencyMs: world.now() - startedAt });
        reply.headers.push(...fanoutHeaders(published));
        return reply;
      } catch (fault) {
        const error = fault instanceof Refusal ? fault.code : "internal";
        events.tell("publish_error", { stream, error, latencyMs: world.now() - startedAt });
        throw fault;
      }
    });
  }

  get(project: string, sessionId: string, request: HttpRequest): Promise<Reply> {
    return this.counted("/session", request, async () => {
      const info = await this.parts.sessions.get(project, sessionId, askerOf(request.access));
      if (info === undefined) throw noSession(sessionId);
      const subscriptions = info.subscriptions.map(({ streamId, subscription: { since, format, missed } }) => ({
        streamId,
        subscribedAt: since,
        format,
        missed: missed && { after: formatOffset(missed.after), through: formatOffset(missed.through) },
      }));
      const { expiresAt } = info;
      return json({ sessionId, sessionStreamPath: pathOf(project, sessionId), expiresAt, subscriptions });
    });
  }

  touch(project: string, sessionId: string, request: HttpRequest): Promise<Reply> {
    return this.counted("/session/touch", request, async () => {
      const touched = await this.parts.sessions.touch(project, sessionId, askerOf(request.access));
      if (touched === undefined) throw noSession(sessionId);
      return json({ sessionId, ...touched });
    });
  }

  delete(project: string, sessionId: string, request: HttpRequest): Promise<Reply> {
    return this.counted("/session", request, async () => {
      const outcome = await this.parts.sessions.delete(project, sessionId, askerOf(request.access));
      if (outcome === "absent") throw noSession(sessionId);
      return { status: 204, headers: [] };
    });
  }

  /** A read of an inbox, by whoever may. */
  async read(project: string, path: string, request: HttpRequest): Promise<Reply> {
    await this.demandOwner(project, path, request);
    return this.parts.streams.read(project, path, request);
  }

  async head(project: string, path: string, request: HttpRequest): Promise<Reply> {
    await this.demandOwner(project, path, request);
    return this.parts.streams.head(project, path);
  }

  private async demandOwner(project: string, path: string, { access }: HttpRequest): Promise<void> {
    const asker = askerOf(access);
    if (!asker.isAdmin && !(await this.parts.sessions.mayRead(project, path, asker))) throw absent(path);
  }

  /** Tells of the request when it is answered. */
  private async counted(endpoint: string, { method }: HttpRequest, work: () => Promise<Reply>): Promise<Reply> {
    const { events, world } = this.parts;
    const startedAt = world.now();
    const told = (status: number, error = "") => {
      const latencyMs = world.now() - startedAt;
      events.tell("http", { stream: endpoint, session: method, error, latencyMs, values: [status] });
    };
    try {
      const reply = await work();
      told(reply.status);
      return reply;
    } catch (fault) {
      if (fault instanceof Refusal) told(fault.status, fault.code);
      else told(500, "internal");
      throw fault;
    }
  }
}

/** Without auth there is nobody in particular, and everything is everybody's. */
function askerOf(access: Access | undefined): Asker {
  return access ?? { subject: undefined, isAdmin: true };
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
  if (position === undefined) throw new Refusal("bad-body", `from must be an offset, ${BEGINNING} or ${NOW}`);
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
        `${streamId} is a sharded topic; a session follows streams, each of which has one order`,
      );
    case "anothers":
      return new Refusal("forbidden", `the session ${sessionId} is somebody else's`);
    case "wrong-type":
      return new Refusal(
        "content-type-mismatch",
        `the session has ${header.contentType} ${outcome.contentType}; format "envelope" takes any stream into a JSON session`,
      );
    case "format-differs":
      return new Refusal("subscription-differs", `the session is subscribed to ${streamId} in the other format`);
    case "too-many":
      return new Refusal(
        "too-many-subscriptions",
        `the session ${sessionId} is subscribed to as many streams as it may`,
      );
    default:
      return unreadable(outcome, streamId);
  }
}
