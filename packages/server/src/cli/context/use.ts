/** `sluice context use`: makes a remembered server the current one. */
import type { Command } from "commander";
import { findContext, readContexts, shownUrl, writeContexts } from "../contexts.ts";
import { examples } from "../help.ts";
import { line } from "../terminal.ts";

export function addUse(group: Command): void {
  const command = group
    .command("use")
    .description("use this server from now on")
    .argument("<name>", "the name of the context")
    .action(use);
  examples(command, [["sluice context use prod", "commands go there, unless --url or --context says otherwise"]]);
}

async function use(name: string): Promise<void> {
  const known = readContexts();
  const { url } = findContext(known, name);
  writeContexts({ ...known, current: name });
  await line(`using ${name} (${shownUrl(url)})`);
}
