/** `sluice group redrive`: puts the dead letters of a queue back into their streams. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions } from "../remote.ts";
import { harmless, line, say } from "../terminal.ts";
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
  const group = groupOf(name, options);
  const sum = { redriven: 0, stayed: 0 };
  for (let isMore = true; isMore; ) {
    const { redriven, stayed, more } = await group.redrive();
    sum.redriven += redriven;
    sum.stayed += stayed;
    isMore = more;
  }
  if (options.json) return line(JSON.stringify(sum));
  await line(`${messages(sum.redriven)} put back for ${harmless(name)}`);
  if (sum.stayed > 0) say(`${messages(sum.stayed)} stayed: their streams are gone, closed or of another type`);
}

function messages(count: number): string {
  return `${count} ${count === 1 ? "message" : "messages"}`;
}
