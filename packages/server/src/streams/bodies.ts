/**
 * What an append or a creation may carry, through any door: producers and messages. `Streams` checks every request here before
 * it runs a rule.
 *
 * Invariants: a message in a JSON stream is valid JSON. A body, or messages that are separate already, stay within the limits.
 */
import { header } from "@sluice/protocol";
import { TOO_DEEP } from "../core/json-depth.ts";
import { Refusal } from "../core/refusal.ts";
import { refuseReserved } from "../core/reserved.ts";
import type { Append } from "./append.ts";
import type { StreamLimits } from "./defaults.ts";
import { jsonMessages } from "./json.ts";
import { isJson } from "./state.ts";

const RESERVED_PRODUCER = "fanout:";

/** An append as a door passes it on: the body of one request, or separate messages. */
export interface AppendRequest extends Omit<Append, "payloads" | "topicId"> {
  readonly body?: Uint8Array | undefined;
  readonly payloads?: readonly Uint8Array[] | undefined;
}

/** Throws a Refusal for an append that no stream accepts. */
export function takeAppend(path: string, request: AppendRequest, limits: StreamLimits): Append {
  refuseReserved(path);
  const { body, payloads, contentType, close, seq, producer, messageId, messageKey, attributes } = request;
  if (producer?.id.startsWith(RESERVED_PRODUCER)) {
    throw new Refusal("reserved-name", `${header.producerId} must not start with ${RESERVED_PRODUCER}`);
  }
  const messages = payloads ? checked(payloads, contentType, limits) : split(body, contentType, limits);
  if (messages.length === 0) {
    if (body !== undefined && body.length > 0)
      throw new Refusal("empty-body", "an empty array appends nothing; send at least one message");
    if (!close) throw new Refusal("empty-body", "an append needs a body, or Stream-Closed: true");
  } else if (contentType === undefined) {
    throw new Refusal("bad-header", `${header.contentType} is missing; send the media type of the stream`);
  }
  return { payloads: messages, contentType, close, seq, producer, messageId, messageKey, attributes };
}

/** The messages in a body: a JSON array is flattened by one level, any other body is one message. Throws a Refusal. */
export function split(
  body: Uint8Array | undefined,
  contentType: string | undefined,
  limits: Pick<StreamLimits, "bodyBytes" | "bodyMessages">,
): readonly Uint8Array[] {
  if (body === undefined || body.length === 0) return [];
  if (body.length > limits.bodyBytes) throw tooLarge(limits);
  if (contentType === undefined || !isJson(contentType)) return [body];
  const json = jsonMessages(body, limits.bodyMessages);
  if (json.kind === "invalid") throw new Refusal("bad-body", `the body is not JSON: ${json.why}`);
  if (json.kind === "too-deep") throw new Refusal("bad-body", TOO_DEEP);
  if (json.kind === "too-many") throw tooMany(limits);
  return json.payloads;
}

/** Separate messages have the same limits as a body. */
export function checked(
  payloads: readonly Uint8Array[],
  contentType: string | undefined,
  limits: Pick<StreamLimits, "bodyBytes" | "bodyMessages">,
): readonly Uint8Array[] {
  if (payloads.length > limits.bodyMessages) throw tooMany(limits);
  let bytes = 0;
  for (const payload of payloads) bytes += payload.length;
  if (bytes > limits.bodyBytes) throw tooLarge(limits);
  if (contentType === undefined || !isJson(contentType)) return payloads;
  for (const [i, payload] of payloads.entries()) {
    const json = jsonMessages(payload);
    if (json.kind === "invalid") throw new Refusal("bad-body", `message ${i} is not JSON: ${json.why}`);
    if (json.kind === "too-deep") throw new Refusal("bad-body", `message ${i}: ${TOO_DEEP}`);
  }
  return payloads;
}

export function tooLarge({ bodyBytes }: Pick<StreamLimits, "bodyBytes">): Refusal {
  return new Refusal("too-large", `a body may have at most ${bodyBytes} bytes`);
}

function tooMany({ bodyMessages }: Pick<StreamLimits, "bodyMessages">): Refusal {
  return new Refusal("too-large", `a body may have at most ${bodyMessages} messages; split it`);
}
