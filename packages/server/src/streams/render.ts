/**
 * Renders messages as a reader gets them: a body, or SSE events. Called by the routes, the tail log and fan-out's
 * copies.
 *
 * Invariants: payload bytes of a JSON stream are never re-encoded. No payload can end its SSE event. Knows formats, no
 * sockets.
 */
import { formatOffset, type Position } from "@sluice/protocol";
import { base64, concat, EMPTY, utf8 } from "../core/bytes.ts";
import type { LoggedMessage } from "../engine/contract.ts";
import { isJson, isText } from "./state.ts";

/** `raw`: the payloads alone. `envelope`: an array of objects that also carry offset, time and metadata. */
export type Format = "raw" | "envelope";

const OPEN = utf8("[");
const COMMA = utf8(",");
const CLOSE = utf8("]");
const EMPTY_ARRAY = utf8("[]");
/** A byte order mark belongs to the payload. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export function renderBody(contentType: string, format: Format, messages: readonly LoggedMessage[]): Uint8Array {
  if (format === "envelope") return array(messages.map((message) => utf8(envelope(contentType, message))));
  const payloads = messages.map((message) => message.payload);
  if (isJson(contentType)) return array(payloads);
  return payloads.length === 0 ? EMPTY : concat(payloads);
}

function array(items: readonly Uint8Array[]): Uint8Array {
  if (items.length === 0) return EMPTY_ARRAY;
  const parts: Uint8Array[] = [];
  for (const item of items) parts.push(parts.length === 0 ? OPEN : COMMA, item);
  parts.push(CLOSE);
  return concat(parts);
}

function envelope(contentType: string, message: LoggedMessage): string {
  const { position, at, id, key, attributes, payload } = message;
  const offset = formatOffset(position);
  const rest = JSON.stringify({ contentType, ...bodyOf(contentType, payload), publishedAt: at, id, key, attributes });
  // A JSON payload is inserted unparsed, because parsing could change its numbers.
  const body = isJson(contentType) ? `"payload":${decoder.decode(payload)},` : "";
  return `{"offset":"${offset}",${body}${rest.slice(1)}`;
}

function bodyOf(contentType: string, payload: Uint8Array): { payload?: string; encoding?: "base64" } {
  if (isJson(contentType)) return {};
  if (isText(contentType)) return { payload: decoder.decode(payload) };
  return { payload: base64(payload), encoding: "base64" };
}

/** What a copy in envelope format states about its original. */
export interface CopyOf {
  readonly stream: string;
  readonly offset: string;
  readonly contentType: string;
}

/** A message as it stands in the inbox of a session that asked for envelopes. */
export function renderCopy({ stream, offset, contentType }: CopyOf, payload: Uint8Array): Uint8Array {
  const about = JSON.stringify({ stream, offset, contentType, ...bodyOf(contentType, payload) });
  if (!isJson(contentType)) return utf8(about);
  return concat([utf8(`${about.slice(0, -1)},"payload":`), payload, utf8("}")]);
}

/** The content type of a response body. */
export function contentTypeFor(contentType: string, format: Format): string {
  return format === "envelope" ? "application/json" : contentType;
}

/** Whether SSE, which carries text only, needs base64 for this stream. */
export function needsBase64(contentType: string, format: Format): boolean {
  return format === "raw" && !isJson(contentType) && !isText(contentType);
}

const DATA_EVENT = utf8("event: data\n");
const DATA = utf8("data:");
const SPACED_DATA = utf8("data: ");
const END_OF_LINE = utf8("\n");
const NEWLINE = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;

/** One data event with all of these messages. */
export function renderData(contentType: string, format: Format, messages: readonly LoggedMessage[]): Uint8Array {
  if (messages.length === 0) return EMPTY;
  const body = renderBody(contentType, format, messages);
  const text = needsBase64(contentType, format) ? utf8(base64(body)) : body;
  const parts: Uint8Array[] = [DATA_EVENT];
  for (const line of lines(text)) {
    // An SSE parser drops one space after the colon, so a line that starts with a space gets another.
    parts.push(line[0] === SPACE ? SPACED_DATA : DATA, line, END_OF_LINE);
  }
  parts.push(END_OF_LINE);
  return concat(parts);
}

/** Splits as an SSE parser does, at LF, CR or both, so that no payload can end its event. */
function lines(text: Uint8Array): Uint8Array[] {
  if (text.indexOf(NEWLINE) < 0 && text.indexOf(RETURN) < 0) return [text];
  const found: Uint8Array[] = [];
  let from = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] !== NEWLINE && text[i] !== RETURN) continue;
    found.push(text.subarray(from, i));
    if (text[i] === RETURN && text[i + 1] === NEWLINE) i++;
    from = i + 1;
  }
  found.push(text.subarray(from));
  return found;
}

export interface Control {
  readonly next: Position;
  readonly atTail: boolean;
  readonly closed: boolean;
  readonly cursor: number;
}

/** The event after every data event; it carries the reader's position. */
export function renderControl({ next, atTail, closed, cursor }: Control): Uint8Array {
  const control = {
    streamNextOffset: formatOffset(next),
    ...(closed ? {} : { streamCursor: String(cursor) }),
    ...(atTail ? { upToDate: true } : {}),
    ...(closed ? { streamClosed: true } : {}),
  };
  return utf8(`event: control\ndata:${JSON.stringify(control)}\n\n`);
}
