/** `sluice group`: the commands for groups, whose members share the messages of many streams. */
import type { Command } from "commander";
import { addConsume } from "./consume.ts";
import { addInfo } from "./info.ts";
import { addLs } from "./ls.ts";
import { addRedrive } from "./redrive.ts";
import { addRm } from "./rm.ts";
import { addSeek } from "./seek.ts";

export function addGroup(program: Command): void {
  const group = program
    .command("group")
    .description("workers that share the messages of many streams: consume, inspect, seek");
  for (const add of [addLs, addInfo, addConsume, addSeek, addRedrive, addRm]) add(group);
}
