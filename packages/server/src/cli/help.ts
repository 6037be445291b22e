/** What every help text has besides its options: examples. */
import type { Command } from "commander";
import { dim } from "./terminal.ts";

export type Example = readonly [command: string, what: string];

/** A help without examples is a riddle; each command gives some. */
export function examples(command: Command, list: readonly Example[]): Command {
  return command.addHelpText("after", () => {
    const lines = list.map(([text, what]) => `  ${text}\n      ${dim(what)}`);
    return `\nExamples:\n${lines.join("\n")}\n`;
  });
}
