/** `sluice wake rm`: deletes wake subscriptions. Their streams stay. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line } from "../terminal.ts";
import { subscriptionPath } from "./subscription.ts";

export function addRm(group: Command): void {
  const command = group
    .command("rm")
    .description("delete wake subscriptions; their streams stay")
    .argument("<id...>", "the ids of the subscriptions")
    .action(remove);
  addRemoteOptions(command);
  examples(command, [["sluice wake rm mailer", "no worker is woken for it any more"]]);
}

async function remove(ids: readonly string[], options: RemoteOptions): Promise<void> {
  const remote = remoteOf(options);
  for (const id of ids) {
    await remote.request("DELETE", subscriptionPath(id));
    await line(`deleted ${harmless(id)}`);
  }
}
