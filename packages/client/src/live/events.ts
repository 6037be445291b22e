/**
 * The events of a live connection, as docs/live.md lists them. The transports parse them; the session acts on them.
 *
 * Invariants: an event of a type that this client does not know is ignored, so that a newer server may send it.
 */

export interface DataEvent {
  readonly type: "data";
  readonly streamId: string;
  readonly offset: string;
  readonly payload: unknown;
  readonly encoding?: "base64" | undefined;
}

export interface NotifyEvent {
  readonly type: "notify";
  readonly streamId: string;
  readonly offset: string;
}

/** Each names the epoch of the subscription that it concerns. */
export interface EndEvent {
  readonly type: "closed" | "gone" | "idle";
  readonly streamId: string;
  readonly epoch: number;
}

export interface Member {
  readonly sessionId: string;
  /** The owner of the session. */
  readonly subject?: string | undefined;
  /** Epoch milliseconds. */
  readonly since: number;
  readonly state?: unknown;
}

export interface PresenceEvent {
  readonly type: "presence";
  readonly streamId: string;
  readonly event: "join" | "leave" | "update";
  readonly member: Member;
}

export interface ByeEvent {
  readonly type: "bye";
  readonly code: string;
  readonly reconnect: boolean;
  readonly retryMs: number;
}

/** The answer to a request over a WebSocket. */
export interface AnswerEvent {
  readonly type: "ok" | "error";
  readonly ref: number;
  readonly code?: string | undefined;
  readonly detail?: string | undefined;
}

/** An event about one stream, in the order of that stream. */
export type StreamEvent = DataEvent | NotifyEvent | EndEvent;

export type LiveEvent = { readonly type: "hello" } | StreamEvent | PresenceEvent | ByeEvent;

const STREAM = ["streamId"];
/** The fields that must be text, by type. */
const TEXTS: Readonly<Record<string, readonly string[]>> = {
  hello: [],
  data: ["streamId", "offset"],
  notify: ["streamId", "offset"],
  closed: STREAM,
  gone: STREAM,
  idle: STREAM,
  presence: ["streamId", "event"],
  bye: ["code"],
  ok: [],
  error: [],
};

/** The event in a text; undefined for one that this client does not know. Throws when the text is no event. */
export function eventIn(text: string): LiveEvent | AnswerEvent | undefined {
  const value = JSON.parse(text) as Readonly<Record<string, unknown>> | null;
  if (typeof value?.type !== "string") throw new TypeError("an event without a type");
  const texts = TEXTS[value.type];
  if (texts === undefined) return undefined;
  const missing = texts.find((name) => typeof value[name] !== "string");
  if (missing !== undefined) throw new TypeError(`the event ${value.type} has no ${missing}`);
  if (value.type === "presence" && typeof (value.member as Member | null)?.sessionId !== "string")
    throw new TypeError("the event presence has no member");
  return value as unknown as LiveEvent | AnswerEvent;
}

export function isAnswer(event: LiveEvent | AnswerEvent): event is AnswerEvent {
  return event.type === "ok" || event.type === "error";
}
