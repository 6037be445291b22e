/** `sluice group redrive`: appends the dead letters of a queue to their streams again. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions } from "../remote.ts";
import { harmless, line } from "../terminal.ts";
import { addWhichOptions, GROUP_ARGUMENT, groupOf, type WhichOptions } from "./which.ts";

interface Options extends WhichOptions {
  readonly json?: boolean;
}

export function addRedrive(group: Command): void {
  const command = group
    .command("redrive")
    .description("process the dead letters of a queue again")
    .argument("<group>", GROUP_ARGUMENT)
    .option("--json", "as a JSON object")
    .action(redrive);
  addRemoteOptions(addWhichOptions(command));
  examples(command, [
    ["sluice group redrive mail", "after the cause of the failures is gone"],
    ["sluice group redrive mail --json", "for scripts"],
  ]);
}

async function redrive(name: string, options: Options): Promise<void> {
  const outcome = await groupOf(name, options).redrive();
  if (options.json) return line(JSON.stringify(outcome));
  const { redriven } = outcome;
  const count = redriven === undefined ? "the dead letters" : `${redriven} ${redriven === 1 ? "message" : "messages"}`;
  await line(`${harmless(name)} processes ${count} again`);
}
