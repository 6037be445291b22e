/**
 * What the wake routes read off a request: ids, tokens and JSON bodies. Everything malformed, mistyped or unknown is refused
 * here, naming the field, before anything is submitted.
 */

import { utf8 } from "../core/bytes.ts";
import { compareBytewise } from "../core/bytewise.ts";
import { type HttpRequest, Refusal } from "../core/http.ts";
import { checkPath, isReserved } from "../streams/parse.ts";
import { parseGlob } from "./glob.ts";
import type { AckWord, Word } from "./holding.ts";
import type { WakeLimits } from "./limits.ts";
import type { Config } from "./state.ts";
import { checkWebhookUrl } from "./targets.ts";

const MAX_NAME_BYTES = 256;
const MAX_DESCRIPTION_BYTES = 1_024;

type Fields = Readonly<Record<string, unknown>>;

const decoder = new TextDecoder("utf-8", { fatal: true });

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
    throw new Refusal("bad-request", "the address has a malformed percent escape");
  }
}

/** The token of `Authorization: Bearer …`. */
export function parseBearer(request: HttpRequest): string {
  const match = /^Bearer +(\S+) *$/i.exec(request.header("authorization") ?? "");
  if (match) return match[1]!;
  throw new Refusal("token-invalid", "Authorization must be Bearer and a token", ["WWW-Authenticate", "Bearer"]);
}

export async function parseConfig(request: HttpRequest, allowLoopback: boolean, limits: WakeLimits): Promise<Config> {
  const known = ["type", "pattern", "streams", "webhook", "wake_stream", "lease_ttl_ms", "description"];
  const fields = await parseBody(request, known, limits);
  const { type } = fields;
  if (type !== "webhook" && type !== "pull-wake") throw bad('type must be "webhook" or "pull-wake"');
  const pattern = fields.pattern === undefined ? undefined : parsePattern(fields.pattern);
  const streams = fields.streams === undefined ? [] : parseStreams(fields.streams, limits.items);
  if (pattern === undefined && streams.length === 0) throw bad("pattern or streams must be given");
  const config: Config = {
    type,
    pattern,
    streams,
    ...(type === "webhook" ? parseWebhook(fields, allowLoopback) : parseWakeStream(fields)),
    leaseMs: parseLease(fields.lease_ttl_ms, limits),
    description: fields.description === undefined ? undefined : parseDescription(fields.description),
  };
  if (config.wakeStream !== undefined && streams.includes(config.wakeStream)) {
    throw bad("streams must not hold wake_stream: each wake would cause the next");
  }
  return config;
}

export async function parseAddedStreams(request: HttpRequest, limits: WakeLimits): Promise<readonly string[]> {
  const { streams } = await parseBody(request, ["streams"], limits);
  return parseStreams(streams, limits.items);
}

export async function parseWorker(request: HttpRequest, limits: WakeLimits): Promise<string> {
  const { worker } = await parseBody(request, ["worker"], limits);
  if (typeof worker !== "string") throw bad("worker must be a string");
  return checkName("worker", worker, "bad-body");
}

export async function parseAck(request: HttpRequest, token: string, limits: WakeLimits): Promise<AckWord> {
  const fields = await parseBody(request, ["wake_id", "generation", "acks", "done"], limits);
  const { items } = limits;
  const { done, acks } = fields;
  if (done !== undefined && typeof done !== "boolean") throw bad("done must be true or false");
  if (acks !== undefined && !Array.isArray(acks)) throw bad("acks must be an array");
  if (acks !== undefined && acks.length > items) throw bad(`acks must have at most ${items} entries`);
  return { ...wordOf(fields, token), acks: (acks ?? []).map(parseOneAck), done: done ?? false };
}

export async function parseRelease(request: HttpRequest, token: string, limits: WakeLimits): Promise<Word> {
  return wordOf(await parseBody(request, ["wake_id", "generation"], limits), token);
}

function wordOf({ wake_id, generation }: Fields, token: string): Word {
  if (typeof wake_id !== "string" || wake_id.length > MAX_NAME_BYTES) throw bad("wake_id must be a string");
  if (!Number.isSafeInteger(generation)) throw bad("generation must be a whole number");
  return { token, wakeId: wake_id, generation: generation as number };
}

function parseOneAck(value: unknown, i: number): { path: string; offset: string } {
  const fields = object(value, `acks[${i}]`);
  onlyKnown(fields, ["stream", "path", "offset"], `acks[${i}].`);
  const { stream, path, offset } = fields;
  if (stream !== undefined && path !== undefined) throw bad(`acks[${i}] must have stream or path, not both`);
  const name = stream ?? path;
  if (typeof name !== "string") throw bad(`acks[${i}].stream must be a string`);
  if (typeof offset !== "string" || offset.length > MAX_NAME_BYTES) throw bad(`acks[${i}].offset must be an offset`);
  return { path: withoutLeadingSlash(name), offset };
}

function parsePattern(value: unknown): string {
  if (typeof value !== "string") throw bad("pattern must be a string");
  const text = checkText("pattern", withoutLeadingSlash(value));
  if (parseGlob(text) === undefined)
    throw bad("pattern must have * and ** alone in their level; %2A is a literal star");
  return text;
}

/** Sorted and each once, so that the order of a PUT does not matter. */
function parseStreams(value: unknown, max: number): readonly string[] {
  if (!Array.isArray(value)) throw bad("streams must be an array of paths");
  if (value.length > max) throw bad(`streams must have at most ${max} entries`);
  const paths = value.map((path, i) => {
    if (typeof path !== "string") throw bad(`streams[${i}] must be a string`);
    return checkStream(`streams[${i}]`, path);
  });
  return [...new Set(paths)].sort(compareBytewise);
}

function parseWebhook(fields: Fields, allowLoopback: boolean): { webhookUrl: string } {
  if (fields.wake_stream !== undefined) throw bad("wake_stream belongs to pull-wake subscriptions only");
  const webhook = object(fields.webhook, "webhook");
  onlyKnown(webhook, ["url"], "webhook.");
  const { url } = webhook;
  if (typeof url !== "string" || url === "") throw bad("webhook.url must be a string");
  const check = checkWebhookUrl(url, allowLoopback);
  if (check.kind === "rejected") throw new Refusal("webhook-url-rejected", check.why);
  return { webhookUrl: url };
}

function parseWakeStream(fields: Fields): { wakeStream: string } {
  if (fields.webhook !== undefined) throw bad("webhook belongs to webhook subscriptions only");
  if (typeof fields.wake_stream !== "string") throw bad("wake_stream must be a string");
  return { wakeStream: checkStream("wake_stream", fields.wake_stream) };
}

function parseLease(value: unknown, { leaseMs, minLeaseMs, maxLeaseMs }: WakeLimits): number {
  if (value === undefined) return leaseMs;
  if (Number.isInteger(value) && (value as number) >= minLeaseMs && (value as number) <= maxLeaseMs)
    return value as number;
  throw bad(`lease_ttl_ms must be a whole number from ${minLeaseMs} to ${maxLeaseMs}`);
}

function parseDescription(value: unknown): string {
  if (typeof value === "string" && utf8(value).length <= MAX_DESCRIPTION_BYTES) return value;
  throw bad(`description must be a string of at most ${MAX_DESCRIPTION_BYTES} bytes`);
}

function checkStream(name: string, text: string): string {
  const path = checkText(name, withoutLeadingSlash(text));
  if (isReserved(path)) throw bad(`${name} is reserved`);
  return path;
}

function checkText(name: string, text: string): string {
  try {
    return checkPath(text);
  } catch (refusal) {
    throw bad(`${name} is not valid: ${(refusal as Refusal).message}`);
  }
}

/** Streams are named relative to the project; a slash in front is a habit. */
function withoutLeadingSlash(text: string): string {
  return text.replace(/^\/+/, "");
}

function checkName(name: string, text: string, code: "bad-request" | "bad-body"): string {
  if (text === "" || text.length > MAX_NAME_BYTES || utf8(text).length > MAX_NAME_BYTES) {
    throw new Refusal(code, `${name} must have 1 to ${MAX_NAME_BYTES} bytes`);
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is refused.
  if (/[\u0000-\u001f\u007f]/.test(text)) throw new Refusal(code, `${name} must not hold control characters`);
  return text;
}

async function parseBody(request: HttpRequest, known: readonly string[], { bodyBytes }: WakeLimits): Promise<Fields> {
  const body = await request.body(bodyBytes);
  if (body.kind === "too-large") throw new Refusal("too-large", `a body may have at most ${bodyBytes} bytes`);
  let value: unknown;
  try {
    value = JSON.parse(decoder.decode(body.bytes));
  } catch {
    throw bad("the body must be JSON");
  }
  const fields = object(value, "the body");
  onlyKnown(fields, known, "");
  return fields;
}

function object(value: unknown, name: string): Fields {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields;
  throw bad(`${name} must be a JSON object`);
}

function onlyKnown(fields: Fields, known: readonly string[], prefix: string): void {
  for (const name of Object.keys(fields)) {
    if (!known.includes(name)) throw bad(`${prefix}${name.slice(0, 100)} is not a field that is known here`);
  }
}

function bad(detail: string): Refusal {
  return new Refusal("bad-body", detail);
}
