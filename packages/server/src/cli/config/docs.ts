/** `sluice config docs`: the reference of every setting, as Markdown; docs/configuration.md is its output. */
import type { Command } from "commander";
import { referenceText } from "../../config/reference.ts";
import { examples } from "../help.ts";
import { write } from "../terminal.ts";

export function addDocs(group: Command): void {
  const command = group
    .command("docs")
    .description("print the reference of every setting: names, default, allowed form, meaning")
    .action(() => write(referenceText()));
  examples(command, [
    ["sluice config docs | less", "read it"],
    ["sluice config docs > docs/configuration.md", "keep it"],
  ]);
}
