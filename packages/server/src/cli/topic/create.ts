/** `sluice topic create`: creates topics. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line } from "../terminal.ts";

export function addCreate(topic: Command): void {
  const command = topic
    .command("create")
    .description("create topics; one that exists stays as it is")
    .argument("<topic...>", "their names")
    .action(create);
  addRemoteOptions(command);
  examples(command, [
    ["sluice topic create orders", "one"],
    ["sluice topic create orders orders-dead", "one, and one for its dead letters"],
  ]);
}

function create(names: readonly string[], options: RemoteOptions): Promise<void> {
  return remoteOf(options).pull(async ({ queue }) => {
    for (const name of names) {
      const { isNew } = await queue.createTopic(name);
      await line(`${isNew ? "created" : "exists"} ${harmless(name)}`);
    }
  });
}
