/** The examples of every help text. Each command adds some. */
import type { Command } from "commander";
import { dim } from "./terminal.ts";

export type Example = readonly [command: string, what: string];

/** Adds examples below the options of a command's help. */
export function examples(command: Command, list: readonly Example[]): Command {
  return command.addHelpText("after", () => {
    const lines = list.map(([text, what]) => `  ${text}\n      ${dim(what)}`);
    return `\nExamples:\n${lines.join("\n")}\n`;
  });
}
