/** `sluice config`: the commands that check, show and explain the configuration. */
import type { Command } from "commander";
import { addCheck } from "./check.ts";
import { addDocs } from "./docs.ts";
import { addPrint } from "./print.ts";

export function addConfig(program: Command): void {
  const group = program.command("config").description("check, show and explain the configuration");
  for (const add of [addCheck, addPrint, addDocs]) add(group);
}
