/** `sluice subscription info`: shows the settings of a subscription, and how far it is behind. */
import type { SubscriptionInfo } from "@sluice/protocol/pull";
import type { Command } from "commander";
import { examples } from "../help.ts";
import { ageText, timeText } from "../listed.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line, table } from "../terminal.ts";
import { stateOf } from "./ls.ts";

interface Options extends RemoteOptions {
  readonly json?: boolean;
}

export function addInfo(subscription: Command): void {
  const command = subscription
    .command("info")
    .description("show the topic of a subscription, its settings, and how far it is behind")
    .argument("<subscription>", "the name of the subscription")
    .option("--json", "as a JSON object")
    .action(info);
  addRemoteOptions(command);
  examples(command, [
    ["sluice subscription info billing", "in words"],
    ["sluice subscription info billing --json | jq .lag", "for scripts: the messages that are not acknowledged"],
  ]);
}

async function info(name: string, options: Options): Promise<void> {
  const found = await remoteOf(options).request<SubscriptionInfo>("GET", `pull/${encodeURIComponent(name)}`);
  if (options.json) return line(JSON.stringify(found));
  const { topic, createdAt, ackDeadlineMs, isOrdered, isExactlyOnce, filter, deadLetter, retryPolicy } = found;
  const rows: [string, string][] = [
    ["subscription", harmless(name)],
    ["topic", harmless(topic)],
    ["state", stateOf(found)],
    ["created", timeText(createdAt)],
    ["lag", String(found.lag)],
    ["pending", found.pending === null ? "unknown; the node that serves it does not answer" : String(found.pending)],
    ["oldest", ageText(found.oldestUnackedMs)],
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
