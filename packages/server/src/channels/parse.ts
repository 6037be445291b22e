/**
 * What the channel routes read from a request: ids, bodies, and where a reader starts. Every malformed value is refused
 * here with the name of its field, before any rule runs.
 */
import { BEGINNING, NOW, type Position, parseOffset } from "@sluice/protocol";
import type { z } from "zod";
import { isLonger } from "../core/bytes.ts";
import { type HttpRequest, queryValue } from "../core/http.ts";
import { checkedJson, parseJson } from "../core/json-body.ts";
import { Refusal } from "../core/refusal.ts";
import { message, messages, stop } from "./bodies.ts";
import { rawMessages, rawPayload } from "./raw-payload.ts";
import type { NewMessage } from "./rules.ts";

export const MAX_CHANNEL_ID_BYTES = 256;

/** A channel's id from its percent-encoded form. */
export function parseChannelId(encoded: string): string {
  let id: string;
  try {
    id = decodeURIComponent(encoded);
  } catch {
    throw new Refusal(
      "bad-request",
      "the channel id has a malformed percent escape; escapes must be UTF-8 in the form %XX",
    );
  }
  if (id === "" || isLonger(id, MAX_CHANNEL_ID_BYTES)) {
    throw new Refusal("bad-request", `a channel id must have 1 to ${MAX_CHANNEL_ID_BYTES} bytes`);
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is refused.
  if (/[\u0000-\u001f\u007f]/.test(id))
    throw new Refusal("bad-request", "a channel id must not contain control characters");
  return id;
}

/** One message, or those of `messages`. */
export function parseMessages(body: Uint8Array): NewMessage[] {
  const { text, value } = parseJson(body);
  const isSeveral = typeof value === "object" && value !== null && Object.hasOwn(value, "messages");
  if (!isSeveral) return [toMessage(checkedJson(message, value), text)];
  const several = checkedJson(messages, value).messages;
  return rawMessages(text).map((raw, i) => toMessage(several[i]!, raw));
}

function toMessage({ messageId, phase, sequence }: z.output<typeof message>, raw: string): NewMessage {
  return { messageId, phase, sequence, payload: rawPayload(raw) };
}

/** A stop may come without a body. */
export function parseStop(body: Uint8Array): z.output<typeof stop> {
  return body.length === 0 ? {} : checkedJson(stop, parseJson(body).value);
}

/** Where a reader starts: at the earliest message kept, at the tail, or after a position. */
export type From = typeof BEGINNING | typeof NOW | Position;

/** Last-Event-ID takes precedence, because a reconnecting browser sends a newer position there than its URL holds. */
export function parseFrom(request: HttpRequest): From {
  const last = request.header("last-event-id");
  const text = last === undefined || last === "" ? (queryValue(request.search, "from") ?? BEGINNING) : last;
  if (text === BEGINNING || text === NOW) return text;
  const position = parseOffset(text);
  if (position !== undefined) return position;
  const name = text === last ? "Last-Event-ID" : "the query parameter from";
  throw new Refusal(
    "bad-offset",
    `${name} must be an offset from this server, ${BEGINNING} or ${NOW}; got ${JSON.stringify(text.slice(0, 40))}`,
  );
}

/** Whether the reader wants the request to stop only, without the messages. */
export function parseOnly(request: HttpRequest): "stop" | undefined {
  const text = queryValue(request.search, "only");
  if (text === undefined || text === "stop") return text;
  throw new Refusal("bad-query", `the query parameter only must be stop; got ${JSON.stringify(text.slice(0, 40))}`);
}

/** Whether the reader waits for a channel that has not started. */
export function parseWait(request: HttpRequest): boolean {
  const text = queryValue(request.search, "wait");
  if (text === undefined || text === "false") return false;
  if (text === "true") return true;
  throw new Refusal(
    "bad-query",
    `the query parameter wait must be true or false; got ${JSON.stringify(text.slice(0, 40))}`,
  );
}
