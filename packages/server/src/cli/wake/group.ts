/** `sluice wake`: the commands for wake subscriptions. */
import type { Command } from "commander";
import { addCreate } from "./create.ts";
import { addLs } from "./ls.ts";
import { addRm } from "./rm.ts";
import { addTail } from "./tail.ts";

export function addWake(program: Command): void {
  const group = program.command("wake").description("wake a worker when messages wait: by webhook or by events");
  for (const add of [addCreate, addLs, addTail, addRm]) add(group);
}
