/** `sluice group seek`: moves a group to another place of its streams. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions } from "../remote.ts";
import { harmless, line } from "../terminal.ts";
import { addWhichOptions, GROUP_ARGUMENT, groupOf, placeOf, type WhichOptions } from "./which.ts";

export function addSeek(group: Command): void {
  const command = group
    .command("seek")
    .description(
      "move a group: it processes messages again, or skips some; acknowledgements of messages in flight do not count",
    )
    .argument("<group>", GROUP_ARGUMENT)
    .argument("<to>", "earliest, latest, an offset, or a time")
    .action(seek);
  addRemoteOptions(addWhichOptions(command));
  examples(command, [
    ["sluice group seek billing earliest", "everything that is kept, again"],
    ["sluice group seek billing 2026-01-31T12:00Z", "everything since then, again"],
    ["sluice group seek billing latest", "skip what waits"],
  ]);
}

async function seek(name: string, to: string, options: WhichOptions): Promise<void> {
  await groupOf(name, options).seek(placeOf("the place", to));
  await line(`moved ${harmless(name)} to ${to}`);
}
