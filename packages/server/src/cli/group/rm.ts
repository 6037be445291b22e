/** `sluice group rm`: forgets groups with their progress. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions } from "../remote.ts";
import { harmless, line } from "../terminal.ts";
import { addWhichOptions, groupOf, type WhichOptions } from "./which.ts";

export function addRm(group: Command): void {
  const command = group
    .command("rm")
    .description("delete groups and their progress; their streams stay")
    .argument("<group...>", "the names of the groups")
    .action(remove);
  addRemoteOptions(addWhichOptions(command));
  examples(command, [
    ["sluice group rm billing", "one group; a member that consumes it creates it again"],
    ["sluice group rm billing mail", "several; ends at the first that fails"],
  ]);
}

async function remove(names: readonly string[], options: WhichOptions): Promise<void> {
  for (const name of names) {
    await groupOf(name, options).remove();
    await line(`removed ${harmless(name)}`);
  }
}
