/**
 * What the wake routes read from a request: ids, tokens and JSON bodies. Every malformed, mistyped or unknown value is
 * refused here with the name of its field, before any rule runs.
 */

import type { z } from "zod";
import { isLonger } from "../core/bytes.ts";
import { compareBytewise } from "../core/bytewise.ts";
import type { HttpRequest } from "../core/http.ts";
import { badBody, jsonBody } from "../core/json-body.ts";
import { Refusal } from "../core/refusal.ts";
import { isReserved } from "../core/reserved.ts";
import { checkPath } from "../streams/paths.ts";
import { MAX_NAME_BYTES, type WakeBodies } from "./bodies.ts";
import { parseGlob } from "./glob.ts";
import type { AckWord, Word } from "./holding.ts";
import { type Config, isWakeStream } from "./state.ts";
import { checkWebhookUrl, type WebhookReach } from "./webhook-targets.ts";

/** A subscription's id from its percent-encoded form. */
export function parseId(encoded: string): string {
  return checkName("the subscription id", decodePart(encoded), "bad-request");
}

/** A stream's path from the end of an address. */
export function parseStreamPart(encoded: string): string {
  return checkStream("the stream path", decodePart(encoded));
}

function decodePart(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    throw new Refusal(
      "bad-request",
      "the address has a malformed percent escape; escapes must be UTF-8 in the form %XX",
    );
  }
}

/** The token of `Authorization: Bearer …`. */
export function parseBearer(request: HttpRequest): string {
  const match = /^Bearer +(\S+) *$/i.exec(request.header("authorization") ?? "");
  if (match) return match[1]!;
  throw new Refusal("token-invalid", "Authorization must be Bearer and a token", { challenge: "" });
}

export async function parseConfig(request: HttpRequest, bodies: WakeBodies, reach: WebhookReach): Promise<Config> {
  const fields = await jsonBody(request, bodies.bodyBytes, bodies.subscription);
  const { type, lease_ttl_ms, description } = fields;
  const pattern = fields.pattern === undefined ? undefined : parsePattern(fields.pattern);
  const streams = parseStreams(fields.streams ?? []);
  if (pattern === undefined && streams.length === 0) throw badBody("pattern or streams must be given");
  const target = type === "webhook" ? parseWebhook(fields, reach) : parseWakeStream(fields);
  const config: Config = { type, pattern, streams, ...target, leaseMs: lease_ttl_ms, description };
  if (streams.some((path) => isWakeStream(config, path))) {
    throw badBody("streams must not contain wake_stream, because each wake would cause the next");
  }
  return config;
}

export async function parseAddedStreams(request: HttpRequest, bodies: WakeBodies): Promise<readonly string[]> {
  return parseStreams((await jsonBody(request, bodies.bodyBytes, bodies.addedStreams)).streams);
}

export async function parseWorker(request: HttpRequest, bodies: WakeBodies): Promise<string> {
  return checkName("worker", (await jsonBody(request, bodies.bodyBytes, bodies.worker)).worker, "bad-body");
}

export async function parseAck(request: HttpRequest, bodies: WakeBodies, token: string): Promise<AckWord> {
  const { wake_id, generation, acks, done } = await jsonBody(request, bodies.bodyBytes, bodies.ack);
  return { token, wakeId: wake_id, generation, acks: acks.map(parseOneAck), done };
}

export async function parseRelease(request: HttpRequest, bodies: WakeBodies, token: string): Promise<Word> {
  const { wake_id, generation } = await jsonBody(request, bodies.bodyBytes, bodies.release);
  return { token, wakeId: wake_id, generation };
}

function parseOneAck({ stream, path, offset }: z.output<WakeBodies["ack"]>["acks"][number], i: number) {
  if (stream !== undefined && path !== undefined) throw badBody(`acks[${i}] must have stream or path, not both`);
  const name = stream ?? path;
  if (name === undefined) throw badBody(`acks[${i}].stream must be a string`);
  return { path: withoutLeadingSlash(name), offset };
}

function parsePattern(value: string): string {
  const text = checkText("pattern", withoutLeadingSlash(value));
  if (parseGlob(text) === undefined)
    throw badBody("pattern must have * and ** alone in their level; %2A is a literal star");
  return text;
}

/** Sorted and without duplicates, so that the order of a PUT does not matter. */
function parseStreams(value: readonly string[]): readonly string[] {
  const paths = value.map((path, i) => checkStream(`streams[${i}]`, path));
  return [...new Set(paths)].sort(compareBytewise);
}

type Fields = z.output<WakeBodies["subscription"]>;

function parseWebhook({ webhook, wake_stream }: Fields, reach: WebhookReach): { webhookUrl: string } {
  if (wake_stream !== undefined) throw badBody("wake_stream belongs to pull-wake subscriptions only");
  if (webhook === undefined) throw badBody("webhook must be a JSON object");
  const check = checkWebhookUrl(webhook.url, reach);
  if (check.kind === "rejected") throw new Refusal("webhook-url-rejected", check.why);
  return { webhookUrl: webhook.url };
}

function parseWakeStream({ webhook, wake_stream }: Fields): { wakeStream: string } {
  if (webhook !== undefined) throw badBody("webhook belongs to webhook subscriptions only");
  if (wake_stream === undefined) throw badBody("wake_stream must be a string");
  return { wakeStream: checkStream("wake_stream", wake_stream) };
}

function checkStream(name: string, text: string): string {
  const path = checkText(name, withoutLeadingSlash(text));
  if (isReserved(path)) throw badBody(`${name} is reserved for the server; use another path`);
  return path;
}

function checkText(name: string, text: string): string {
  try {
    return checkPath(text);
  } catch (refusal) {
    throw badBody(`${name} is not valid: ${(refusal as Refusal).message}`);
  }
}

/** Streams are named relative to the project; many clients send a leading slash. */
function withoutLeadingSlash(text: string): string {
  return text.replace(/^\/+/, "");
}

function checkName(name: string, text: string, code: "bad-request" | "bad-body"): string {
  if (text === "" || isLonger(text, MAX_NAME_BYTES)) {
    throw new Refusal(code, `${name} must have 1 to ${MAX_NAME_BYTES} bytes`);
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is refused.
  if (/[\u0000-\u001f\u007f]/.test(text)) throw new Refusal(code, `${name} must not contain control characters`);
  return text;
}
