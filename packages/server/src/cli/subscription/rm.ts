/** `sluice subscription rm`: deletes subscriptions. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line } from "../terminal.ts";

export function addRm(subscription: Command): void {
  const command = subscription
    .command("rm")
    .description("delete subscriptions and what they have acknowledged; their topics stay")
    .argument("<subscription...>", "their names")
    .action(remove);
  addRemoteOptions(command);
  examples(command, [
    ["sluice subscription rm billing", "one"],
    ["sluice subscription rm billing mail", "several; ends at the first that fails"],
  ]);
}

function remove(names: readonly string[], options: RemoteOptions): Promise<void> {
  return remoteOf(options).pull(async ({ queue }) => {
    for (const name of names) {
      await queue.deleteSubscription(name);
      await line(`deleted ${harmless(name)}`);
    }
  });
}
