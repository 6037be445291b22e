/**
 * Checks JSON bodies against their schemas. The routes of every feature call it.
 *
 * Invariants: a refusal names the place of the fault, and an unknown field comes before all other faults. The schemas say what a
 * field must be in words that complete that sentence.
 */
import type { z } from "zod";
import { utf8 } from "./bytes.ts";
import type { HttpRequest } from "./http.ts";
import { isTooDeep, JSON_DEPTH, TOO_DEEP } from "./json-depth.ts";
import { Refusal } from "./refusal.ts";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The whole body, read and checked. */
export async function jsonBody<S extends z.ZodType>(
  request: HttpRequest,
  maxBytes: number,
  schema: S,
): Promise<z.output<S>> {
  const body = await request.body(maxBytes);
  if (body.kind === "too-large") throw new Refusal("too-large", `a body may have at most ${maxBytes} bytes`);
  return checkedJson(schema, parseJson(body.bytes).value);
}

/** The text of a body and its parsed value. */
export function parseJson(bytes: Uint8Array): { readonly text: string; readonly value: unknown } {
  if (isTooDeep(bytes)) throw badBody(TOO_DEEP);
  try {
    const text = decoder.decode(bytes);
    return { text, value: JSON.parse(text) };
  } catch {
    throw badBody("the body must be JSON");
  }
}

/** The value of a frame of a WebSocket. */
export function parseFrame(text: string): unknown {
  if (text.length > JSON_DEPTH && isTooDeep(utf8(text))) throw badBody(TOO_DEEP);
  try {
    return JSON.parse(text);
  } catch {
    throw badBody("a frame must be JSON");
  }
}

export function checkedJson<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw badBody(firstWrong(parsed.error.issues));
}

export function badBody(detail: string): Refusal {
  return new Refusal("bad-body", detail);
}

function firstWrong(issues: readonly z.core.$ZodIssue[]): string {
  const unknown = issues.find(({ code }) => code === "unrecognized_keys");
  if (unknown?.code === "unrecognized_keys") {
    const place = [...unknown.path, unknown.keys[0]!.slice(0, 100)];
    return `${placeOf(place)} is not a field that is known here`;
  }
  const { path: place, message } = issues[0]!;
  return `${place.length === 0 ? "the body" : placeOf(place)} ${message}`;
}

/** `acks[0].offset` */
function placeOf(place: readonly PropertyKey[]): string {
  return place
    .map((part, i) => (typeof part === "number" ? `[${part}]` : `${i === 0 ? "" : "."}${String(part)}`))
    .join("");
}
