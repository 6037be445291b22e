/** `sluice subscription info`: shows what is stored of a subscription. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { timeText } from "../listed.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line, table } from "../terminal.ts";
import { stateOf } from "./ls.ts";

interface Options extends RemoteOptions {
  readonly json?: boolean;
}

export function addInfo(subscription: Command): void {
  const command = subscription
    .command("info")
    .description("show the topic of a subscription and its settings")
    .argument("<subscription>", "the name of the subscription")
    .option("--json", "as a JSON object")
    .action(info);
  addRemoteOptions(command);
  examples(command, [
    ["sluice subscription info billing", "in words"],
    ["sluice subscription info billing --json | jq .ackDeadlineMs", "for scripts"],
  ]);
}

async function info(name: string, options: Options): Promise<void> {
  const found = await remoteOf(options).pull(({ queue }) => queue.subscription(name));
  if (options.json) return line(JSON.stringify(found));
  const { topic, createdAt, ackDeadlineMs, isOrdered, isExactlyOnce, filter, deadLetter, retryPolicy } = found;
  const rows: [string, string][] = [
    ["subscription", harmless(name)],
    ["topic", harmless(topic)],
    ["state", stateOf(found)],
    ["created", timeText(createdAt)],
    ["ack deadline", `${ackDeadlineMs / 1_000}s`],
    ["ordered", isOrdered ? "yes" : "no"],
    ["exactly once", isExactlyOnce ? "yes" : "no"],
  ];
  if (filter) rows.push(["filter", harmless(filter)]);
  if (retryPolicy) rows.push(["retries", `after ${retryPolicy.minBackoffMs} to ${retryPolicy.maxBackoffMs} ms`]);
  if (deadLetter) {
    rows.push(["dead letters", `${harmless(deadLetter.topic)}, after ${deadLetter.maxAttempts} attempts`]);
  }
  await line(table(rows));
}
