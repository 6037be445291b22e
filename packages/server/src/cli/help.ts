/** The help texts: their layout, and the examples that each command adds. The program and every command use it. */
import type { Command, Help, HelpConfiguration } from "commander";
import { bold, dim } from "./terminal.ts";
import { paragraph, shellCommand } from "./wrap.ts";

export type Example = readonly [command: string, what: string];

/** Below this, a description beside its term would have too few words per line, so it goes below the term. */
const LEAST_DESCRIPTION = 40;

/** The layout of every help text, for a terminal of this width. */
export function helpLayout(width: number): HelpConfiguration {
  return {
    styleTitle: bold,
    ...(Number.isFinite(width) && { helpWidth: width }),
    formatItem(this: Help, term, termWidth, description, helper) {
      const { helpWidth = 80 } = helper;
      const beside = helpWidth - termWidth - 4;
      if (description === "") return `  ${term}`;
      if (beside < LEAST_DESCRIPTION) return `  ${term}\n${paragraph(description, helpWidth, "      ")}`;
      const padded = `  ${term.padEnd(termWidth + term.length - helper.displayWidth(term))}  `;
      return paragraph(description, helpWidth, padded, termWidth + 4);
    },
    styleUsage: (usage) => paragraph(usage, width, "Usage: ").slice("Usage: ".length),
  };
}

/** The width of a command's help text. */
export function helpWidthOf(command: Command): number {
  return command.configureHelp().helpWidth ?? Number.POSITIVE_INFINITY;
}

/** Adds examples below the options of a command's help. */
export function examples(command: Command, list: readonly Example[]): Command {
  return command.addHelpText("after", ({ command: asked }) => {
    const width = helpWidthOf(asked);
    const lines = list.map(
      ([text, what]) => `${shellCommand(text, width, "  ", 4)}\n${dim(paragraph(what, width, "      "))}`,
    );
    return `\nExamples:\n${lines.join("\n")}\n`;
  });
}
