/**
 * The `ls` commands of sessions, channels and wake subscriptions: one listing of the server, page by page. `stream ls` uses the
 * client's own.
 */
import type { Command } from "commander";
import { parseCount } from "./duration.ts";
import { type Example, examples } from "./help.ts";
import { addRemoteOptions, type Remote, type RemoteOptions, remoteOf } from "./remote.ts";
import { line, listing, say } from "./terminal.ts";

interface Options extends RemoteOptions {
  readonly limit: string;
  readonly json?: boolean;
}

export interface Listed<T> {
  readonly what: string;
  readonly description: string;
  /** The address behind the project, and the field of the answer that holds the entries. */
  readonly path: string;
  readonly field: string;
  readonly heading: readonly string[];
  row(entry: T): readonly string[];
  readonly examples: readonly Example[];
}

const PAGE = 100;

export function addListing<T>(group: Command, listed: Listed<T>): void {
  const command = group
    .command("ls")
    .description(listed.description)
    .option("--limit <N>", `at most N ${listed.what}`, "1000")
    .option("--json", "one JSON object per line")
    .action((options: Options) => list(listed, options));
  addRemoteOptions(command);
  examples(command, listed.examples);
}

async function list<T>({ what, path, field, heading, row }: Listed<T>, options: Options): Promise<void> {
  const limit = parseCount("--limit", options.limit);
  const rows: (readonly string[])[] = [];
  let found = 0;
  for await (const entry of entriesOf<T>(remoteOf(options), path, field, Math.min(PAGE, limit + 1))) {
    if (++found > limit) break;
    if (options.json) await line(JSON.stringify(entry));
    else rows.push(row(entry));
  }
  if (rows.length > 0) await line(listing(heading, rows));
  if (found === 0) say(`there are no ${what} here`);
  if (found > limit) say(`there are more; --limit ${limit * 10} shows them`);
}

/** Every entry of a listing, in order. */
export async function* entriesOf<T>(
  remote: Remote,
  path: string,
  field: string,
  pageSize: number,
): AsyncGenerator<T, void, undefined> {
  for (let after = ""; ; ) {
    const query = new URLSearchParams({ limit: String(pageSize), ...(after && { after }) });
    const page = await remote.request<{ next?: string } & Record<string, unknown>>("GET", `${path}?${query}`);
    yield* page[field] as T[];
    if (page.next === undefined || page.next === after) return;
    after = page.next;
  }
}

export function timeText(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
}

/** The age of the oldest message that waits. */
export function ageText(ms: number | null): string {
  return ms === null ? "-" : `${(ms / 1_000).toFixed(1)}s`;
}
