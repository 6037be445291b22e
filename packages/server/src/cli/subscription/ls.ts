/** `sluice subscription ls`: lists the subscriptions of a project. */
import type { Subscription } from "@sluice/protocol/pull";
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line, listing, say } from "../terminal.ts";

interface Options extends RemoteOptions {
  readonly json?: boolean;
}

export function addLs(subscription: Command): void {
  const command = subscription
    .command("ls")
    .description("list subscriptions")
    .option("--json", "one JSON object per line")
    .action(list);
  addRemoteOptions(command);
  examples(command, [
    ["sluice subscription ls", "all of them"],
    ["sluice subscription ls --json", "for scripts"],
  ]);
}

async function list(options: Options): Promise<void> {
  const found = await remoteOf(options).pull(({ queue }) => queue.subscriptions());
  if (options.json) for (const one of found) await line(JSON.stringify(one));
  else if (found.length === 0)
    say("there are no subscriptions here; `sluice subscription create NAME TOPIC` makes one");
  else await line(listing(["SUBSCRIPTION", "TOPIC", "ACK DEADLINE", "STATE"], found.map(rowOf)));
}

function rowOf(one: Subscription): readonly string[] {
  return [harmless(one.name), harmless(one.topic), `${one.ackDeadlineMs / 1_000}s`, stateOf(one)];
}

export function stateOf({ isDetached, isTopicDeleted, isPaused }: Subscription): string {
  if (isDetached) return "detached";
  if (isTopicDeleted) return "its topic was deleted";
  return isPaused ? "paused" : "delivers";
}
