/**
 * The frames of a consume connection, as docs/groups.md lists them. A line parses what the server sends.
 *
 * Invariants: a frame of a type that this client does not know is ignored, so that a newer server may send it.
 */

/** Where a message comes from. */
export interface Source {
  readonly stream: string;
  readonly contentType?: string | undefined;
  readonly epoch?: number | undefined;
  readonly lease?: number | undefined;
  readonly attempt?: number | undefined;
}

export interface Sent {
  readonly offset: string;
  readonly payload: unknown;
  readonly encoding?: "base64" | undefined;
  readonly key?: string | undefined;
  readonly attributes?: Readonly<Record<string, string>> | undefined;
}

export interface MessageFrame extends Source, Sent {
  readonly type: "message";
}

/** Messages of one stream, in order. */
export interface MessagesFrame extends Source {
  readonly type: "messages";
  readonly messages: readonly Sent[];
}

export interface StreamFrame {
  readonly type: "granted" | "revoking" | "revoked";
  readonly stream: string;
  readonly epoch: number;
}

export interface AckedFrame {
  readonly type: "acked";
  readonly stream: string;
  readonly offset: string;
}

/** It names the message, epoch and lease of the frame that it answers, if that named some. */
export interface ErrorFrame {
  readonly type: "error";
  readonly id?: string | undefined;
  readonly code: string;
  readonly detail: string;
  readonly stream?: string | undefined;
  readonly offset?: string | undefined;
  readonly epoch?: number | undefined;
  readonly lease?: number | undefined;
}

export interface ByeFrame {
  readonly type: "bye";
  readonly code: string;
  readonly reconnect: boolean;
  readonly retryMs: number;
}

export interface GapFrame {
  readonly type: "gap";
  readonly stream: string;
  readonly after: string;
  readonly through: string;
}

export type ServerFrame =
  | { readonly type: "subscribed" | "unsubscribed" }
  | MessageFrame
  | MessagesFrame
  | StreamFrame
  | AckedFrame
  | GapFrame
  | ErrorFrame
  | ByeFrame;

const STREAM = ["stream"];
/** The fields that must be text, by type. */
const TEXTS: Readonly<Record<string, readonly string[]>> = {
  subscribed: [],
  unsubscribed: [],
  message: ["stream", "offset"],
  messages: STREAM,
  granted: STREAM,
  revoking: STREAM,
  revoked: STREAM,
  acked: ["stream", "offset"],
  gap: ["stream", "after", "through"],
  error: ["code"],
  bye: ["code"],
};

/** The frame in a text; undefined for one that this client does not know. Throws when the text is no frame. */
export function frameIn(text: string): ServerFrame | undefined {
  const value = JSON.parse(text) as Readonly<Record<string, unknown>> | null;
  if (typeof value?.type !== "string") throw new TypeError("a frame without a type");
  const missing = TEXTS[value.type]?.find((name) => typeof value[name] !== "string");
  if (missing !== undefined) throw new TypeError(`the frame ${value.type} has no ${missing}`);
  if (value.type === "messages" && !isRun(value.messages)) throw new TypeError("the frame messages has no messages");
  return TEXTS[value.type] && (value as unknown as ServerFrame);
}

function isRun(value: unknown): boolean {
  return Array.isArray(value) && value.every((one: Partial<Sent> | null) => typeof one?.offset === "string");
}
