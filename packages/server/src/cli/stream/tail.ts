/**
 * `sluice stream tail`: prints messages as they are appended. The client reconnects at its position, until the stream
 * is closed, enough messages were printed, or the user ends the command.
 */
import type { Command } from "commander";
import { endSignal, usage } from "../exit.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { type FormatOptions, formatFor, limitOf, writePages } from "./messages.ts";
import { addStartOptions, type StartOptions, startOf } from "./start.ts";
import { tailMany } from "./tail-many.ts";

interface Options extends RemoteOptions, FormatOptions, StartOptions {
  readonly limit?: string;
}

export function addTail(group: Command): void {
  const command = group
    .command("tail")
    .description("follow a stream until it is closed or you end it; reconnects by itself")
    .argument("<path>", "the path of the stream, or a topic filter like 'chat/+' or 'chat/#'")
    .option("--json", "one JSON value per line: messages of a JSON stream, envelopes of any other")
    .option("--lines", "each message with a line end after it; a terminal always shows text so")
    .option("--envelope", "one envelope per line: offset, time, payload, key, attributes")
    .option("--limit <N>", "end after N messages")
    .action(tail);
  addStartOptions(command, "now");
  addRemoteOptions(command);
  examples(command, [
    ["sluice stream tail chat/room1", "new messages; Ctrl-C ends it"],
    ["sluice stream tail chat/room1 --from beginning", "the messages so far, then new ones"],
    ["sluice stream tail log/app --last 20", "the last 20 messages, then new ones"],
    ["sluice stream tail 'chat/#'", "every stream below chat, later ones included"],
    ["sluice stream tail log/app --json --limit 1", "wait for the next message"],
  ]);
}

async function tail(path: string, options: Options): Promise<void> {
  const remote = remoteOf(options);
  const limit = limitOf(options.limit);
  const signal = endSignal();
  // No stream's own path has these characters.
  if (/[+#]/.test(path)) return tailMany(remote, path, options, limit, signal);
  const stream = remote.stream(path);
  const { from, source } = startOf(remote, path, options, "now");
  const { contentType } = await stream.info({ signal });
  const format = formatFor(contentType, options, true);
  if (options.limit !== undefined && !format.lines) {
    throw usage(`--limit counts messages, so it needs --json, --lines or --envelope for a stream of ${contentType}`);
  }
  await writePages(source, format, limit, { from, live: true, signal });
}
