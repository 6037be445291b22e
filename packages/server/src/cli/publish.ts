/**
 * `sluice publish`: appends to a stream like `stream append`, and waits for the copies into the sessions that follow it, as far as
 * the server does. What became of them is told beside the offset; it never makes the command fail, since the server sees to the rest.
 */
import { header } from "@sluice/protocol";
import type { Command } from "commander";
import { usage } from "./exit.ts";
import { examples } from "./help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "./remote.ts";
import { Sender, sayWhatIsRead, sendLines, sendOne, typeOf } from "./stream/sender.ts";
import { line, say } from "./terminal.ts";

interface Options extends RemoteOptions {
  readonly type?: string;
  readonly json?: boolean;
  readonly lines?: boolean;
}

interface Told {
  readonly offset: string | null;
  readonly mode: string | null;
  readonly count: number;
  readonly successes: number;
  readonly failures: number;
}

export function addPublish(program: Command): void {
  const command = program
    .command("publish")
    .description("append to a stream and tell into how many sessions it was copied; prints the offset")
    .argument("<path>", "the path of the stream")
    .argument("[message]", "the message (default: standard input)")
    .option("-t, --type <TYPE>", "the content type (default: the stream's)")
    .option("--lines", "every line of standard input is a message; for a stream of JSON, a line is a JSON value")
    .option("--json", "print what the server said of each request, as JSON: offset, mode and counts of its fan-out")
    .action(publish);
  addRemoteOptions(command);
  examples(command, [
    [`sluice publish notices/all '{"text":"back at noon"}'`, "to everybody who follows notices/all"],
    ["cat notices.ndjson | sluice publish notices/all --lines", "many, one per line"],
    [`sluice publish notices/all '{}' --json`, "for scripts: offset, mode, count, successes, failures"],
  ]);
}

async function publish(path: string, message: string | undefined, options: Options): Promise<void> {
  if (message !== undefined && options.lines) throw usage("--lines reads standard input; leave the message out");
  const remote = remoteOf(options);
  const url = remote.publishUrl(path);
  let last = "";
  const heard = async (response: Response) => {
    const told = toldBy(response);
    if (options.json) return line(JSON.stringify(told));
    const text = inWords(told);
    // Of many messages in a row, only what is new.
    if (text !== last) say(text);
    last = text;
  };
  const sender = new Sender(remote, url, options.type ?? (await typeOf(remote, path, undefined)), heard);
  sayWhatIsRead(message);
  if (options.lines) await sendLines(sender);
  else await sendOne(sender, message);
  if (sender.offset !== undefined && !options.json) await line(sender.offset);
}

function toldBy({ headers }: Response): Told {
  const number = (name: string) => Number(headers.get(name) ?? 0);
  return {
    offset: headers.get(header.streamNextOffset),
    mode: headers.get(header.fanoutMode),
    count: number(header.fanoutCount),
    successes: number(header.fanoutSuccesses),
    failures: number(header.fanoutFailures),
  };
}

function inWords({ mode, count, successes, failures }: Told): string {
  if (count === 0) return "no session follows this stream";
  const who = count === 1 ? "1 session" : `${count} sessions`;
  if (mode !== "inline") return `copies for ${who} are on their way (${mode})`;
  const later = failures > 0 ? `, ${failures} later` : "";
  return `copied to ${successes} of ${who}${later} (inline)`;
}
