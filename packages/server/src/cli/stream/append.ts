/**
 * `sluice stream append`: appends the argument or standard input as one message. With `--json` every line is a JSON
 * message; with `--lines` every line is a message, byte for byte. Lines are sent as they arrive. Empty lines are
 * skipped, because no message may be empty.
 */
import type { Command } from "commander";
import { isJson } from "../../streams/state.ts";
import { usage } from "../exit.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { line } from "../terminal.ts";
import { jsonBodies, lineBodies, oneBody, sayWhatIsRead, sendAll, typeOf } from "./input.ts";

interface Options extends RemoteOptions {
  readonly type?: string;
  readonly json?: boolean;
  readonly lines?: boolean;
}

export function addAppend(group: Command): void {
  const command = group
    .command("append")
    .description("append to a stream; prints the offset after the last message")
    .argument("<path>", "the path of the stream")
    .argument("[message]", "the message (default: standard input)")
    .option("-t, --type <TYPE>", "the content type (default: the stream's)")
    .option("--json", "standard input is NDJSON: every line that is not blank is a JSON message")
    .option(
      "--lines",
      "every line of standard input is a message, byte for byte without its line end; empty ones are left out",
    )
    .action(append);
  addRemoteOptions(command);
  examples(command, [
    [`sluice stream append chat/room1 '{"text":"hello"}'`, "one message"],
    ["cat messages.ndjson | sluice stream append chat/room1 --json", "many, one per line"],
    ["tail -F app.log | sluice stream append log/app --lines", "a log file as it grows"],
    ["sluice stream append files/a < photo.jpg", "standard input as one message"],
    [`sluice stream append chat/room1 '{}' -H 'Message-Key: ada'`, "with a header"],
  ]);
}

async function append(path: string, message: string | undefined, options: Options): Promise<void> {
  if (options.json && options.lines) throw usage("--json and --lines exclude each other");
  if (message !== undefined && (options.json || options.lines)) {
    throw usage(`${options.json ? "--json" : "--lines"} reads standard input; leave the message out`);
  }
  const remote = remoteOf(options);
  const otherwise = options.json ? "application/json" : undefined;
  const contentType = options.type ?? (await typeOf(remote.stream(path), otherwise));
  if (options.json && !isJson(contentType)) throw usage(`--json is for streams of JSON; this one is ${contentType}`);
  sayWhatIsRead(message);
  const stream = remote.stream(path, { contentType, producer: false, create: false });
  const bodies = options.json ? jsonBodies() : options.lines ? lineBodies(contentType) : oneBody(message);
  const offset = await sendAll(bodies, (body) => stream.append(body));
  if (offset !== undefined) await line(offset);
}
