/**
 * `sluice publish`: appends to a stream like `stream append`, and waits for the copies into the sessions that follow
 * it, as far as the server does. It prints the outcome of the copies beside the offset. Late copies are not a failure,
 * because the server still makes them.
 */
import type { Encoded, Fanout } from "@sluice/client";
import type { Command } from "commander";
import { usage } from "./exit.ts";
import { examples } from "./help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "./remote.ts";
import { lineBodies, oneBody, sayWhatIsRead, sendAll, typeOf } from "./stream/input.ts";
import { line, say } from "./terminal.ts";

interface Options extends RemoteOptions {
  readonly type?: string;
  readonly json?: boolean;
  readonly lines?: boolean;
}

export function addPublish(program: Command): void {
  const command = program
    .command("publish")
    .description("append to a stream, print the offset, and report into how many sessions it was copied")
    .argument("<path>", "the path of the stream")
    .argument("[message]", "the message (default: standard input)")
    .option("-t, --type <TYPE>", "the content type (default: the stream's)")
    .option("--lines", "every line of standard input is a message; for a stream of JSON, a line is a JSON value")
    .option("--json", "print a JSON object per request: offset, mode and counts of its fan-out")
    .action(publish);
  addRemoteOptions(command);
  examples(command, [
    [`sluice publish notices/all '{"text":"back at noon"}'`, "to every session that follows notices/all"],
    ["cat notices.ndjson | sluice publish notices/all --lines", "many, one per line"],
    [`sluice publish notices/all '{}' --json`, "for scripts: offset, mode, count, successes, failures"],
  ]);
}

async function publish(path: string, message: string | undefined, options: Options): Promise<void> {
  if (message !== undefined && options.lines) throw usage("--lines reads standard input; leave the message out");
  const remote = remoteOf(options);
  const contentType = options.type ?? (await typeOf(remote.stream(path)));
  const stream = remote.stream(path, { contentType, producer: false, create: false });
  let last = "";
  const send = async (body: Encoded) => {
    const { offset, fanout } = await stream.publish(body);
    const text = options.json ? JSON.stringify({ offset, ...fanout }) : inWords(fanout);
    if (options.json) await line(text);
    // Of many messages in a row, only changes are reported.
    else if (text !== last) say(text);
    last = text;
    return { offset };
  };
  sayWhatIsRead(message);
  const offset = await sendAll(options.lines ? lineBodies(contentType) : oneBody(message), send);
  if (offset !== undefined && !options.json) await line(offset);
}

function inWords({ mode, count, successes, failures }: Fanout): string {
  if (count === 0) return "no session follows this stream";
  const who = count === 1 ? "1 session" : `${count} sessions`;
  if (mode !== "inline") return `copies for ${who} are on their way (${mode})`;
  const later = failures > 0 ? `, ${failures} later` : "";
  return `copied to ${successes} of ${who}${later} (inline)`;
}
