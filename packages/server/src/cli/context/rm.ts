/** `sluice context rm`: forgets a server and its token. */
import type { Command } from "commander";
import { findContext, readContexts, writeContexts } from "../contexts.ts";
import { examples } from "../help.ts";
import { line } from "../terminal.ts";

export function addRm(group: Command): void {
  const command = group
    .command("rm")
    .description("forget a server and its token")
    .argument("<name>", "the name of the context")
    .action(remove);
  examples(command, [["sluice context rm prod", "the server itself is left alone"]]);
}

async function remove(name: string): Promise<void> {
  const known = readContexts();
  findContext(known, name);
  const { [name]: _forgotten, ...contexts } = known.contexts;
  const wasCurrent = known.current === name;
  writeContexts({ current: wasCurrent ? undefined : known.current, contexts });
  await line(`forgot ${name}${wasCurrent ? "; no context is current now, `sluice context use NAME` chooses one" : ""}`);
}
