/** `sluice subscription redrive`: publishes the dead letters of a subscription to its topic again. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line } from "../terminal.ts";

export function addRedrive(subscription: Command): void {
  const command = subscription
    .command("redrive")
    .description("publish the dead letters of a subscription to its topic again")
    .argument("<subscription>", "the name of the subscription")
    .action(redrive);
  addRemoteOptions(command);
  examples(command, [["sluice subscription redrive billing", "after the cause of the failures is gone"]]);
}

async function redrive(name: string, options: RemoteOptions): Promise<void> {
  const count = await remoteOf(options).pull(({ queue }) => queue.redrive(name));
  await line(`${count} ${count === 1 ? "message" : "messages"} published again for ${harmless(name)}`);
}
