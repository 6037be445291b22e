/**
 * Where `stream read` and `stream tail` begin: at `--from`, or at `--since` or `--last`, whose place only the server can find.
 *
 * Invariants: the first page comes from the server's own search, and every further one from its offset on.
 */
import type { Gap, PageOptions, Stream, StreamPage } from "@sluice/client";
import { header } from "@sluice/protocol";
import type { Command } from "commander";
import { parseCount } from "../duration.ts";
import { usage } from "../exit.ts";
import { type Remote, refusalOf } from "../remote.ts";
import { fromOf } from "./messages.ts";

export interface StartOptions {
  readonly from?: string;
  readonly since?: string;
  readonly last?: string;
}

export function addStartOptions(command: Command, fallback: "beginning" | "now"): Command {
  return command
    .option("--from <OFFSET>", `beginning, now, or the offset after which to start (default: ${fallback})`)
    .option("--since <TIME>", "start with the messages of the last 10m, 2h, 1d, or since a time in epoch milliseconds")
    .option("--last <N>", "start with the last N messages");
}

export interface Pages {
  pages(options: PageOptions): AsyncIterable<StreamPage | Gap>;
}

export interface Start {
  readonly from: string;
  readonly source: Pages;
}

/** The stream as `writePages` reads it. */
export function startOf(remote: Remote, path: string, options: StartOptions, fallback: string): Start {
  const { from, since, last } = options;
  if ([from, since, last].filter((one) => one !== undefined).length > 1) {
    throw usage("--from, --since and --last exclude each other");
  }
  const stream = remote.stream(path);
  const query = queryOf(options);
  if (query === undefined) return { from: fromOf(from ?? fallback), source: stream };
  return { from: "", source: { pages: (asked) => searched(remote, path, stream, query, asked) } };
}

function queryOf({ since, last }: StartOptions): Readonly<Record<string, string>> | undefined {
  if (since !== undefined) return { since: sinceOf(since) };
  return last === undefined ? undefined : { last: lastOf(last) };
}

function sinceOf(text: string): string {
  if (/^\d{1,15}$|^\d{1,9}[smhd]$/.test(text)) return text;
  throw usage(`--since must be a time like 90s, 10m, 2h or 1d, or epoch milliseconds, not ${JSON.stringify(text)}`);
}

function lastOf(text: string): string {
  return String(parseCount("--last", text));
}

async function* searched(
  remote: Remote,
  path: string,
  stream: Stream,
  query: Readonly<Record<string, string>>,
  { format, live, signal, ...options }: PageOptions,
): AsyncGenerator<StreamPage | Gap, void, undefined> {
  const asked = new URLSearchParams({ ...query, ...(format && { format }) });
  const levels = path.split("/").map(encodeURIComponent).join("/");
  const response = await remote.fetch(`${remote.streamUrl(levels)}?${asked}`, signal ? { signal } : {});
  const bytes = new Uint8Array(await response.arrayBuffer());
  const { headers } = response;
  const offset = headers.get(header.streamNextOffset);
  if (!response.ok || offset === null) throw refusalOf(response, Buffer.from(bytes).toString("utf8"));
  const upToDate = headers.get(header.streamUpToDate) !== null;
  const closed = headers.get(header.streamClosed) !== null;
  yield { type: "page", bytes, offset, upToDate, closed };
  if (closed || (upToDate && !live)) return;
  yield* stream.pages({ ...options, format, live, signal, from: offset });
}
