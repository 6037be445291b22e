/** `sluice stream info`: what the server says about one stream. */

import type { ListedStream } from "@sluice/protocol";
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions, type Remote, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line, table } from "../terminal.ts";
import type { ListPage } from "./ls.ts";

interface Options extends RemoteOptions {
  readonly json?: boolean;
}

/** Headers of a stream that say how it was set up. */
const SHOWN: Readonly<Record<string, string>> = {
  "content-type": "contentType",
  "stream-next-offset": "nextOffset",
  "stream-earliest-offset": "earliestOffset",
  "stream-closed": "closed",
  "stream-ttl": "ttlSeconds",
  "stream-expires-at": "expiresAt",
  "stream-max-messages": "maxMessages",
  "stream-max-bytes": "maxBytes",
  "stream-max-age-seconds": "maxAgeSeconds",
  "stream-shards": "shards",
  "stream-forked-from": "forkedFrom",
  "stream-fork-offset": "forkOffset",
};

export function addInfo(group: Command): void {
  const command = group
    .command("info")
    .description("show what is known of a stream")
    .argument("<path>", "the path of the stream")
    .option("--json", "as a JSON object")
    .action(info);
  addRemoteOptions(command);
  examples(command, [
    ["sluice stream info chat/room1", "type, size, offsets, retention"],
    ["sluice stream info chat/room1 --json", "for scripts"],
  ]);
}

async function info(path: string, options: Options): Promise<void> {
  const remote = remoteOf(options);
  const response = await remote.call("HEAD", remote.streamUrl(path));
  const found: Record<string, unknown> = { path };
  for (const [name, label] of Object.entries(SHOWN)) {
    const value = response.headers.get(name);
    if (value !== null) found[label] = wireValue(label, value);
  }
  const listed = await entryOf(remote, path);
  if (listed !== undefined) {
    const { messages, bytes, closed, createdAt, lastAppendAt } = listed;
    Object.assign(found, { messages, bytes, closed, createdAt, lastAppendAt });
  }
  if (options.json) await line(JSON.stringify(found));
  else await line(table(Object.entries(found).map(([label, value]) => [label, harmless(shown(label, value))])));
}

/** The listing counts messages; the stream itself comes first among those that start with its path. */
async function entryOf(remote: Remote, path: string): Promise<ListedStream | undefined> {
  const query = new URLSearchParams({ prefix: path, limit: "1" });
  const response = await remote.send("GET", `${remote.listUrl}?${query}`);
  if (!response.ok) return undefined;
  const { streams } = (await response.json()) as ListPage;
  return streams.find((stream) => stream.path === path);
}

/** As `ls --json` has it: numbers as numbers, times in ms since 1970. */
function wireValue(label: string, text: string): unknown {
  if (label === "expiresAt") return Date.parse(text);
  if (label === "closed") return text === "true";
  return /^(ttl|max|shards)/.test(label) ? Number(text) : text;
}

function shown(label: string, value: unknown): string {
  if (value === null || value === undefined) return "-";
  return label.endsWith("At") ? new Date(value as number).toISOString() : String(value);
}
