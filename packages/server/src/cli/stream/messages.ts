/**
 * How messages of a page are written out: as they are, or one JSON value per line. `read` and `tail` share it.
 */
import { jsonMessages } from "../../streams/json.ts";
import { isJson } from "../../streams/state.ts";
import { usage } from "../exit.ts";
import type { Remote } from "../remote.ts";
import { write } from "../terminal.ts";

export interface Format {
  /** Whether to ask the server for envelopes: offset, time, payload and more of each message. */
  readonly envelope: boolean;
  readonly lines: boolean;
}

export interface FormatOptions {
  readonly json?: boolean;
  readonly envelope?: boolean;
}

/** A stream of JSON is shown message by message; of any other stream, `--json` shows envelopes, since bytes are no JSON. */
export function formatFor(contentType: string, options: FormatOptions, isTail: boolean): Format {
  if (options.envelope) return { envelope: true, lines: true };
  if (options.json) return { envelope: !isJson(contentType), lines: true };
  return { envelope: false, lines: isTail && isJson(contentType) };
}

/** Writes a page, at most `max` messages of it; tells how many. Without lines, a page counts as one. */
export async function writePage(bytes: Uint8Array, format: Format, max: number): Promise<number> {
  if (bytes.length === 0) return 0;
  if (!format.lines) {
    await write(bytes);
    return 1;
  }
  const body = jsonMessages(bytes, Number.POSITIVE_INFINITY);
  if (body.kind !== "messages") throw new Error("the server answered a page that is not JSON");
  const payloads = body.payloads.slice(0, max);
  // A line break in JSON can only lie between its parts, where a space means the same.
  const text = payloads.map((payload) =>
    Buffer.from(payload)
      .toString("utf8")
      .replace(/[\r\n]+/g, " "),
  );
  if (text.length > 0) await write(`${text.join("\n")}\n`);
  return payloads.length;
}

/** The words of `--from` and what the wire calls them. */
export function offsetOf(from: string): string {
  if (from === "beginning") return "-1";
  if (from === "now" || /^\d{16}_\d{16}$/.test(from)) return from;
  throw usage(
    `--from must be beginning, now or an offset like ${"0".repeat(15)}1_${"0".repeat(15)}7, not ${JSON.stringify(from)}`,
  );
}

export async function contentTypeOf(remote: Remote, path: string, signal?: AbortSignal): Promise<string> {
  const response = await remote.call("HEAD", remote.streamUrl(path), { signal });
  return response.headers.get("content-type") ?? "application/octet-stream";
}
