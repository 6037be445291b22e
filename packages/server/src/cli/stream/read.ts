/** `sluice stream read`: prints a stream from an offset up to its end, page by page. */
import type { Command } from "commander";
import { usage } from "../exit.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { say } from "../terminal.ts";
import { type FormatOptions, formatFor, isByMessage, limitOf, writePages } from "./messages.ts";
import { addStartOptions, type StartOptions, startOf } from "./start.ts";

interface Options extends RemoteOptions, FormatOptions, StartOptions {
  readonly limit?: string;
  readonly offset?: boolean;
}

export function addRead(group: Command): void {
  const command = group
    .command("read")
    .description("read a stream up to its end")
    .argument("<path>", "the path of the stream")
    .option("--json", "one JSON value per line: messages of a JSON stream, envelopes of any other")
    .option("--lines", "each message with a line end after it; a terminal always shows text so")
    .option("--envelope", "one envelope per line: offset, time, payload, key, attributes")
    .option("--limit <N>", "stop after N messages; with --json, --lines or --envelope")
    .option("--offset", "print on standard error the offset to continue from")
    .action(read);
  addStartOptions(command, "beginning");
  addRemoteOptions(command);
  examples(command, [
    ["sluice stream read chat/room1", "everything that is kept"],
    ["sluice stream read chat/room1 --json | jq .text", "one message per line"],
    ["sluice stream read chat/room1 --envelope --limit 10", "with offsets and times"],
    ["sluice stream read log/app --last 20", "the last 20 messages"],
    ["sluice stream read log/app --since 10m --json", "the messages of the last ten minutes"],
    ["sluice stream read files/a > photo.jpg", "bytes as they are"],
  ]);
}

async function read(path: string, options: Options): Promise<void> {
  const remote = remoteOf(options);
  const stream = remote.stream(path);
  const { from, source } = startOf(remote, path, options, "beginning");
  const limit = limitOf(options.limit);
  if (options.limit !== undefined && !(options.json || options.envelope || options.lines))
    throw usage("--limit counts messages, so it needs --json, --lines or --envelope");
  if (options.limit !== undefined && options.offset) {
    throw usage(
      "--offset shows where a page ends, which --limit may cut short; --envelope shows the offset of each message",
    );
  }
  const type = isByMessage(options) ? (await stream.info()).contentType : "";
  const offset = await writePages(source, formatFor(type, options, false), limit, { from });
  if (options.offset) say(`go on with --from ${offset ?? from}`);
}
