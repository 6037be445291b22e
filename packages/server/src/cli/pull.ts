/**
 * `sluice pull`: prints the messages of a subscription and acknowledges each when it is printed. The library reconnects by itself,
 * until enough messages were printed or the user ends the command.
 *
 * Invariants: a message that was not printed is not acknowledged. What was delivered and not printed goes back at the end, so that
 * other subscribers get it at once.
 */
import type { Message, PubSubError, Subscription } from "@sluice/client/pubsub";
import type { Command } from "commander";
import { endSignal } from "./exit.ts";
import { failureOf } from "./failure.ts";
import { examples } from "./help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "./remote.ts";
import { limitOf } from "./stream/messages.ts";
import { harmless, line, say } from "./terminal.ts";

interface Options extends RemoteOptions {
  readonly limit?: string;
  readonly ack: boolean;
  readonly json?: boolean;
}

/** Messages that are delivered and not printed yet, and that are looked at. */
const AHEAD = 100;
const LOOK = 10_000;
/** How long an acknowledgement is repeated. */
const PATIENCE_MS = 30_000;
/** While messages are looked at and not acknowledged, other subscribers must not get them. */
const LOOK_SECONDS = 600;

export function addPull(program: Command): void {
  const command = program
    .command("pull")
    .description("print each message of a subscription, then acknowledge it; reconnects by itself")
    .argument("<subscription>", "the name of the subscription")
    .option("--limit <N>", "end after N messages")
    .option("--no-ack", "only look: gives the printed messages back at the end")
    .option("--json", "one JSON object per line: id, data, attributes, orderingKey, publishTime, attempt")
    .action(pull);
  addRemoteOptions(command);
  examples(command, [
    ["sluice pull billing", "each message on a line, until Ctrl-C"],
    ["sluice pull billing --limit 10 --no-ack", "look at ten messages and leave them there"],
    ["sluice pull billing --json | jq .data", "for scripts"],
  ]);
}

function pull(name: string, options: Options): Promise<void> {
  const limit = limitOf(options.limit);
  const remote = remoteOf(options);
  return remote.pull(async (pubsub) => {
    // A subscriber waits for a server that is away. One that was never there is a mistake.
    await remote.fetch(`${remote.url}/health`);
    const maxMessages = Math.min(options.ack ? AHEAD : LOOK, limit);
    const subscription = pubsub.subscription(name, {
      flowControl: { maxMessages },
      streamingOptions: { maxStreams: 1 },
      ...(!options.ack && { ackDeadline: LOOK_SECONDS }),
    });
    let printed = 0;
    try {
      await printAll(subscription, limit, async (message) => {
        await show(message, options.json === true);
        if (options.ack) message.ack();
        printed++;
      });
    } finally {
      // Answers under way are confirmed first.
      await subscription.close({ mode: "nack" });
      say(`${printed} ${printed === 1 ? "message" : "messages"} ${options.ack ? "acknowledged" : "printed"}`);
    }
  }, PATIENCE_MS);
}

/** Resolves when the limit is reached, or the user ends the command. */
function printAll(
  subscription: Subscription,
  limit: number,
  print: (message: Message) => Promise<void>,
): Promise<void> {
  let printing = Promise.resolve();
  let left = limit;
  return new Promise((resolve, reject) => {
    const finish = () => void printing.then(resolve);
    subscription.on("message", (message) => {
      if (--left < 0) return;
      // One after another, as fast as the reader of the output takes them.
      printing = printing.then(() => print(message)).catch(reject);
      if (left === 0) finish();
    });
    subscription.on("error", (error) => {
      if ((error as PubSubError).isFatal) reject(error);
      else say(`${failureOf(error as PubSubError).message}; trying again`);
    });
    endSignal().addEventListener("abort", finish);
    subscription.open();
  });
}

function show(message: Message, isJson: boolean): Promise<void> {
  const { id, data, attributes, orderingKey, publishTime, deliveryAttempt: attempt } = message;
  const text = textIn(data);
  if (!isJson) return line(harmless(text ?? data.toString("base64")));
  const shown = { data: text ?? data.toString("base64"), ...(text === undefined && { encoding: "base64" }) };
  return line(JSON.stringify({ id, ...shown, attributes, orderingKey, publishTime, attempt }));
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Undefined if the data is not text. */
function textIn(data: Uint8Array): string | undefined {
  try {
    return decoder.decode(data);
  } catch {
    return undefined;
  }
}
