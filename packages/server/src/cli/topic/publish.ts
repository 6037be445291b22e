/**
 * `sluice topic publish`: publishes the argument or standard input as one message, or every line of standard input. Lines are sent as
 * they arrive.
 */
import type { Command } from "commander";
import { parseTime } from "../../core/rfc3339.ts";
import { usage } from "../exit.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { lineBodies, oneBody, sayWhatIsRead, sendAll } from "../stream/input.ts";
import { line } from "../terminal.ts";

interface Options extends RemoteOptions {
  readonly lines?: boolean;
  readonly key?: string;
  readonly attribute?: readonly string[];
  readonly id?: string;
  readonly at?: string;
}

const BYTES = "application/octet-stream";

export function addPublish(topic: Command): void {
  const command = topic
    .command("publish")
    .description("publish to a topic; prints the id of the last message")
    .argument("<topic>", "the name of the topic")
    .argument("[message]", "the message (default: standard input)")
    .option("--lines", "every line of standard input is a message; empty ones are left out")
    .option("--key <KEY>", "the ordering key: an ordered subscription delivers messages of a key one after another")
    .option("-a, --attribute <NAME=VALUE>", "an attribute of the message; may be repeated", collect)
    .option("--id <ID>", "an id of yours, for subscriptions that deduplicate")
    .option("--at <TIME>", "deliver it no earlier, like 2026-01-31T12:00:00Z")
    .action(publish);
  addRemoteOptions(command);
  examples(command, [
    ["sluice topic publish orders tea", "one message"],
    ["cat orders.ndjson | sluice topic publish orders --lines", "many, one per line"],
    ["sluice topic publish orders tea --key customer-7 -a region=eu", "with an ordering key and an attribute"],
  ]);
}

function publish(topic: string, message: string | undefined, options: Options): Promise<void> {
  const { lines, key: orderingKey, id } = options;
  if (message !== undefined && lines) throw usage("--lines reads standard input; leave the message out");
  const attributes = options.attribute && Object.fromEntries(options.attribute.map(pairOf));
  const deliverAtMs = options.at === undefined ? undefined : timeOf(options.at);
  sayWhatIsRead(message);
  return remoteOf(options).pull(async ({ queue }) => {
    const last = await sendAll(lines ? lineBodies(BYTES) : oneBody(message), async ({ body }) => {
      const data = typeof body === "string" ? Buffer.from(body) : body;
      const [offset] = await queue.publish(topic, [{ data, orderingKey, attributes, id, deliverAtMs }]);
      return { offset: offset! };
    });
    if (last !== undefined) await line(last);
  });
}

function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

function pairOf(text: string): [string, string] {
  const at = text.indexOf("=");
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw usage(`--attribute must be like region=eu, not ${JSON.stringify(text)}`);
}

function timeOf(text: string): number {
  const ms = parseTime(text);
  if (ms === undefined) throw usage(`--at must be a time like 2026-01-31T12:00:00Z, not ${JSON.stringify(text)}`);
  return ms;
}
