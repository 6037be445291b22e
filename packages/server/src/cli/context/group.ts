/** `sluice context`: the commands for named servers. */
import type { Command } from "commander";
import { addAdd } from "./add.ts";
import { addLs } from "./ls.ts";
import { addRm } from "./rm.ts";
import { addUse } from "./use.ts";

export function addContext(program: Command): void {
  const group = program.command("context").description("remember servers by name, and choose between them");
  for (const add of [addAdd, addUse, addLs, addRm]) add(group);
}
