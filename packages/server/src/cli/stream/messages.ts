/**
 * Prints pages of messages: unchanged, or one JSON value per line. `stream read`, `stream tail` and `session tail`
 * share it.
 *
 * Invariants: JSON is cut into messages and never parsed and printed again, so numbers of any size keep their digits.
 */
import type { Gap, PageOptions, StreamPage } from "@sluice/client";
import { jsonMessages } from "../../streams/json.ts";
import { isJson } from "../../streams/state.ts";
import { parseCount } from "../duration.ts";
import { CliError, EXIT, usage } from "../exit.ts";
import { earliestText } from "../failure.ts";
import { write } from "../terminal.ts";

export interface Format {
  /** Whether to request envelopes from the server: offset, time, payload and metadata of each message. */
  readonly envelope: boolean;
  readonly lines: boolean;
  /** Print only the payload of an envelope, as it was appended. */
  readonly payload?: boolean;
}

export interface FormatOptions {
  readonly json?: boolean;
  readonly envelope?: boolean;
  readonly lines?: boolean;
}

/** Whether the content type must be known first. */
export function isByMessage({ json, envelope, lines }: FormatOptions): boolean {
  return json === true || envelope === true || lines === true || process.stdout.isTTY === true;
}

/**
 * A stream of JSON is printed message by message. For any other stream `--json` prints envelopes, because bytes are not
 * JSON. Text on a terminal gets a line end after each message, which a file or a program would not want.
 */
export function formatFor(contentType: string, options: FormatOptions, isTail: boolean): Format {
  if (options.envelope) return { envelope: true, lines: true };
  if (options.json) return { envelope: !isJson(contentType), lines: true };
  const isText = /^text\//i.test(contentType);
  if (options.lines || (process.stdout.isTTY && isText)) {
    return isJson(contentType) ? { envelope: false, lines: true } : { envelope: true, lines: true, payload: true };
  }
  return { envelope: false, lines: isTail && isJson(contentType) };
}

/** The client's handle of a stream or of a session. */
interface Readable {
  pages(options: PageOptions): AsyncIterable<StreamPage | Gap>;
}

/** Prints up to `limit` messages. Returns the offset after the last page. */
export async function writePages(
  source: Readable,
  format: Format,
  limit: number,
  options: PageOptions,
): Promise<string | undefined> {
  let left = limit;
  let offset: string | undefined;
  for await (const page of source.pages({ ...options, format: format.envelope ? "envelope" : undefined })) {
    if (page.type === "gap") throw goneAt(page);
    left -= await writePage(page.bytes, format, left);
    offset = page.offset;
    if (left <= 0) break;
  }
  return offset;
}

/** A gap ends the command, so that a script that must miss nothing notices. */
function goneAt({ reason, from, to }: Gap): CliError {
  const why = reason === "trimmed" ? "retention has taken messages" : "a failover has lost messages";
  return new CliError(EXIT.notFound, `${why} after ${from}; ${earliestText(to)}`);
}

/** Prints at most `max` messages of a page and returns their number. Without lines, a page counts as one. */
async function writePage(bytes: Uint8Array, format: Format, max: number): Promise<number> {
  if (bytes.length === 0) return 0;
  if (!format.lines && !format.payload) {
    await write(bytes);
    return 1;
  }
  const body = jsonMessages(bytes, Number.POSITIVE_INFINITY);
  if (body.kind !== "messages") throw new Error("the server answered a page that is not JSON");
  const payloads = body.payloads.slice(0, max);
  if (format.payload) {
    const end = format.lines ? [LINE_END] : [];
    for (const payload of payloads) await write(Buffer.concat([payloadOf(payload), ...end]));
    return payloads.length;
  }
  // A line break in JSON can only lie between its tokens, where a space means the same.
  const text = payloads.map((payload) =>
    Buffer.from(payload)
      .toString("utf8")
      .replace(/[\r\n]+/g, " "),
  );
  if (text.length > 0) await write(`${text.join("\n")}\n`);
  return payloads.length;
}

const LINE_END = Buffer.from("\n");

function payloadOf(envelope: Uint8Array): Buffer {
  const { payload, encoding } = JSON.parse(Buffer.from(envelope).toString("utf8")) as {
    payload: string;
    encoding?: "base64";
  };
  return Buffer.from(payload, encoding ?? "utf8");
}

export const OFFSET_FORM = `an offset like ${"0".repeat(15)}1_${"0".repeat(15)}7`;

export function isOffset(text: string): boolean {
  return /^\d{16}_\d{16}$/.test(text);
}

/** `--from` as the client accepts it. */
export function fromOf(from: string): string {
  if (from === "beginning" || from === "now" || isOffset(from)) return from;
  throw usage(`--from must be beginning, now or ${OFFSET_FORM}, not ${JSON.stringify(from)}`);
}

export function limitOf(limit: string | undefined): number {
  return limit === undefined ? Number.POSITIVE_INFINITY : parseCount("--limit", limit);
}
