/** `sluice subscription create`: creates a subscription of a topic. */
import type { NewSubscription } from "@sluice/protocol/pull";
import type { Command } from "commander";
import { parseCount, parseSeconds } from "../duration.ts";
import { usage } from "../exit.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line } from "../terminal.ts";
import { timeOf } from "./seek.ts";

interface Options extends RemoteOptions {
  readonly from?: string;
  readonly ackDeadline?: string;
  readonly ordered?: boolean;
  readonly exactlyOnce?: boolean;
  readonly filter?: string;
  readonly deadLetter?: string;
  readonly maxAttempts?: string;
}

const DEFAULT_ATTEMPTS = "5";

export function addCreate(subscription: Command): void {
  const command = subscription
    .command("create")
    .description("create a subscription; it gets every message that is published from then on")
    .argument("<subscription>", "the name of the subscription")
    .argument("<topic>", "the topic that it delivers")
    .option("--from <PLACE>", "earliest, latest, or a time (default: latest)")
    .option("--ack-deadline <TIME>", "how long a message may stay unacknowledged, 1s to 10m (default: 10s)")
    .option("--ordered", "deliver messages of an ordering key in their order")
    .option("--exactly-once", "only the newest delivery of a message may be acknowledged")
    .option("--filter <FILTER>", `only messages whose attributes match, like 'attributes.region = "eu"'`)
    .option("--dead-letter <TOPIC>", "where a message goes after too many attempts")
    .option("--max-attempts <N>", `how many attempts a message gets (default: ${DEFAULT_ATTEMPTS})`)
    .action(create);
  addRemoteOptions(command);
  examples(command, [
    ["sluice subscription create billing orders", "what is published from now on"],
    ["sluice subscription create billing orders --from earliest --ordered", "everything, in order of each key"],
    ["sluice subscription create billing orders --dead-letter orders-dead", "five attempts, then put aside"],
  ]);
}

async function create(name: string, topic: string, options: Options): Promise<void> {
  const { from, ackDeadline, ordered, exactlyOnce, filter, deadLetter, maxAttempts } = options;
  if (maxAttempts !== undefined && deadLetter === undefined) throw usage("--max-attempts needs --dead-letter");
  const asked: NewSubscription = {
    topic,
    from: from === undefined || from === "latest" || from === "earliest" ? from : timeOf("--from", from),
    ackDeadlineMs: ackDeadline === undefined ? undefined : parseSeconds("--ack-deadline", ackDeadline) * 1_000,
    isOrdered: ordered,
    isExactlyOnce: exactlyOnce,
    filter,
    deadLetter: deadLetter === undefined ? undefined : { topic: deadLetter, maxAttempts: attemptsOf(maxAttempts) },
  };
  const { isNew, value } = await remoteOf(options).pull(({ queue }) => queue.createSubscription(name, asked));
  await line(`${isNew ? "created" : "exists"} ${harmless(name)} (topic ${harmless(value.topic)})`);
}

function attemptsOf(text = DEFAULT_ATTEMPTS): number {
  return parseCount("--max-attempts", text, 100);
}
