/** `sluice stream ls`: lists the streams of a project, by prefix or topic filter. */
import type { ListedStream } from "@sluice/client";
import type { Command } from "commander";
import { parseCount } from "../duration.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { bytesText, harmless, line, listing, say } from "../terminal.ts";

interface Options extends RemoteOptions {
  readonly filter?: string;
  readonly limit: string;
  readonly json?: boolean;
}

const PAGE = 100;

export function addLs(group: Command): void {
  const command = group
    .command("ls")
    .description("list streams")
    .argument("[prefix]", "only streams whose path starts with this")
    .option("--filter <FILTER>", "only streams that match a topic filter, like 'chat/+' or 'log/#'")
    .option("--limit <N>", "at most N streams", "1000")
    .option("--json", "one JSON object per line")
    .action(list);
  addRemoteOptions(command);
  examples(command, [
    ["sluice stream ls", "all of them"],
    ["sluice stream ls chat/ --limit 20", "streams whose path starts with chat/"],
    ["sluice stream ls --filter 'chat/+' --json", "by topic filter, for scripts"],
  ]);
}

async function list(prefix: string | undefined, options: Options): Promise<void> {
  const { filter, json } = options;
  const limit = parseCount("--limit", options.limit);
  const rows: string[][] = [];
  let found = 0;
  for await (const stream of remoteOf(options)
    .sluice()
    .list({ prefix, filter, pageSize: Math.min(PAGE, limit + 1) })) {
    if (++found > limit) break;
    if (json) await line(JSON.stringify(stream));
    else rows.push(rowOf(stream));
  }
  if (!json) await show(rows);
  if (found > limit) say(`there are more; --limit ${limit * 10} shows them`);
}

function rowOf({ path, contentType, messages, bytes, lastAppendAt, closed }: ListedStream): string[] {
  const last = lastAppendAt === null ? "-" : new Date(lastAppendAt).toISOString().replace(/\.\d+Z$/, "Z");
  return [harmless(path), contentType, String(messages), bytesText(bytes), last, closed ? "closed" : "open"];
}

async function show(rows: readonly string[][]): Promise<void> {
  if (rows.length === 0) say("there are no streams here; `sluice stream create PATH` makes one");
  else await line(listing(["PATH", "TYPE", "MESSAGES", "SIZE", "LAST APPEND", "STATE"], rows));
}
