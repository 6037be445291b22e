/** `sluice topic rm`: deletes topics with their messages. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line } from "../terminal.ts";

export function addRm(topic: Command): void {
  const command = topic
    .command("rm")
    .description("delete topics and their messages; their subscriptions stay and deliver no more")
    .argument("<topic...>", "their names")
    .action(remove);
  addRemoteOptions(command);
  examples(command, [
    ["sluice topic rm orders", "one"],
    ["sluice topic rm orders orders-dead", "several; ends at the first that fails"],
  ]);
}

function remove(names: readonly string[], options: RemoteOptions): Promise<void> {
  return remoteOf(options).pull(async ({ queue }) => {
    for (const name of names) {
      await queue.deleteTopic(name);
      await line(`deleted ${harmless(name)}`);
    }
  });
}
