/**
 * The frames of a consume connection: what clients send, checked, and what they get, as bytes. `connection.ts` uses it.
 *
 * Invariants: a frame of the server is a WebSocket text frame with one JSON object. The payload of a JSON stream is never parsed or
 * re-encoded.
 */
import { formatOffset } from "@sluice/protocol";
import { z } from "zod";
import { base64, utf8 } from "../core/bytes.ts";
import { textFrame } from "../core/socket.ts";
import type { LoggedMessage } from "../engine/contract.ts";
import { isJson, isText } from "../streams/state.ts";
import { from } from "./bodies.ts";

const OBJECT = { error: "must be a JSON object" };
const ID = { error: "must be a string of 1 to 64 characters, unique within the connection" };
const TEXT = { error: "must be a string" };
const WHOLE = { error: "must be a whole number" };
/** Ten years. */
const MAX_MS = 10 * 365 * 24 * 3_600_000;
const DELAY = { error: "must be a whole number of milliseconds from 0 on" };
const SPAN = { error: "must be a whole number of milliseconds from 1 on" };
const BATCH = { error: "must be true or false" };
const CREDIT = { error: "must be a whole number from 1 on" };

const id = z.string(ID).min(1, ID).max(64, ID);
const message = { id, stream: z.string(TEXT), offset: z.string(TEXT) };

export const FRAMES = {
  subscribe: z.strictObject(
    {
      id,
      topic: z.string(TEXT),
      from: from.optional(),
      credit: z.int(CREDIT).min(1, CREDIT).optional(),
      batch: z.boolean(BATCH).optional(),
    },
    OBJECT,
  ),
  ack: z.strictObject({ ...message, epoch: z.int(WHOLE).optional(), lease: z.int(WHOLE).optional() }, OBJECT),
  nack: z.strictObject(
    { ...message, lease: z.int(WHOLE), delayMs: z.int(DELAY).min(0, DELAY).max(MAX_MS, DELAY).optional() },
    OBJECT,
  ),
  extend: z.strictObject(
    { ...message, lease: z.int(WHOLE), leaseMs: z.int(SPAN).min(1, SPAN).max(MAX_MS, SPAN) },
    OBJECT,
  ),
  unsubscribe: z.strictObject({ id }, OBJECT),
} as const;

export type ClientFrame = {
  [T in keyof typeof FRAMES]: { readonly type: T } & z.output<(typeof FRAMES)[T]>;
}[keyof typeof FRAMES];

export type ServerFrame =
  | { readonly type: "subscribed" | "unsubscribed"; readonly id: string }
  | {
      readonly type: "granted" | "revoking" | "revoked";
      readonly id: string;
      readonly stream: string;
      readonly epoch: number;
    }
  | { readonly type: "acked"; readonly id: string; readonly stream: string; readonly offset: string }
  | {
      readonly type: "gap";
      readonly id: string;
      readonly stream: string;
      readonly after: string;
      readonly through: string;
    }
  | ErrorFrame;

/** It names the message, epoch and lease of the frame that it answers, if that named some. */
export interface ErrorFrame {
  readonly type: "error";
  readonly id?: string | undefined;
  readonly stream?: string | undefined;
  readonly offset?: string | undefined;
  readonly epoch?: number | undefined;
  readonly lease?: number | undefined;
  readonly code: string;
  readonly detail: string;
}

export function frameOf(frame: ServerFrame): Uint8Array {
  return textFrame([utf8(JSON.stringify(frame))]);
}

/** A byte order mark belongs to the payload. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export interface Delivered {
  readonly id: string;
  readonly stream: string;
  /** Of `$share`. */
  readonly epoch?: number | undefined;
  /** Of `$queue`. */
  readonly lease?: number | undefined;
  readonly attempt?: number | undefined;
}

export function messageFrame(of: Delivered, contentType: string, logged: LoggedMessage): Uint8Array {
  const parts: Part[] = [];
  pushObject(parts, { type: "message", ...of, contentType }, contentType, logged);
  return textFrame(parts);
}

/** For a client that has asked for batches: the messages of a run share what they have in common. */
export function messagesFrame(of: Delivered, contentType: string, run: readonly LoggedMessage[]): Uint8Array {
  const about = JSON.stringify({ type: "messages", ...of, contentType });
  const parts: Part[] = [utf8(`${about.slice(0, -1)},"messages":[`)];
  for (const [i, logged] of run.entries()) {
    if (i > 0) parts.push(",");
    pushObject(parts, undefined, contentType, logged);
  }
  parts.push("]}");
  return textFrame(parts);
}

/** A part of a frame; text is ASCII. */
type Part = Uint8Array | string;

/** Adds a message as a JSON object, with what is said of it alone. */
function pushObject(parts: Part[], about: object | undefined, contentType: string, logged: LoggedMessage): void {
  const { position, payload, key, attributes } = logged;
  const offset = formatOffset(position);
  if (isJson(contentType)) {
    const isPlain = about === undefined && key === undefined && attributes === undefined;
    if (isPlain) parts.push(`{"offset":"${offset}","payload":`, payload, "}");
    else {
      const rest = JSON.stringify({ ...about, offset, key, attributes });
      parts.push(utf8(`${rest.slice(0, -1)},"payload":`), payload, "}");
    }
    return;
  }
  const body = isText(contentType)
    ? { payload: decoder.decode(payload) }
    : { payload: base64(payload), encoding: "base64" };
  parts.push(utf8(JSON.stringify({ ...about, offset, key, attributes, ...body })));
}
