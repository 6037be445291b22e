/**
 * `sluice stream tail`: prints messages as they are appended. The client reconnects at its position, until the stream
 * is closed, enough messages were printed, or the user ends the command.
 */
import type { Command } from "commander";
import { endSignal, usage } from "../exit.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { type FormatOptions, formatFor, fromOf, limitOf, writePages } from "./messages.ts";

interface Options extends RemoteOptions, FormatOptions {
  readonly from: string;
  readonly limit?: string;
}

export function addTail(group: Command): void {
  const command = group
    .command("tail")
    .description("follow a stream until it is closed or you end it; reconnects by itself")
    .argument("<path>", "the path of the stream")
    .option("--from <OFFSET>", "beginning, now, or the offset after which to start", "now")
    .option("--json", "one JSON value per line: messages of a JSON stream, envelopes of any other")
    .option("--lines", "each message as it is, with a line end after it; on a terminal, text is always shown so")
    .option("--envelope", "one envelope per line: offset, time, payload, key, attributes")
    .option("--limit <N>", "end after N messages")
    .action(tail);
  addRemoteOptions(command);
  examples(command, [
    ["sluice stream tail chat/room1", "what comes from now on; Ctrl-C ends it"],
    ["sluice stream tail chat/room1 --from beginning", "what there is, then what comes"],
    ["sluice stream tail log/app --json --limit 1", "wait for the next message"],
  ]);
}

async function tail(path: string, options: Options): Promise<void> {
  const stream = remoteOf(options).stream(path);
  const from = fromOf(options.from);
  const limit = limitOf(options.limit);
  const signal = endSignal();
  const { contentType } = await stream.info({ signal });
  const format = formatFor(contentType, options, true);
  if (options.limit !== undefined && !format.lines) {
    throw usage(`--limit counts messages, so it needs --json, --lines or --envelope for a stream of ${contentType}`);
  }
  await writePages(stream, format, limit, { from, live: true, signal });
}
