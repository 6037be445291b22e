/** `sluice channel`: the commands for channels. */
import type { Command } from "commander";
import { addLs } from "./ls.ts";
import { addPublish } from "./publish.ts";
import { addStop } from "./stop.ts";
import { addTail } from "./tail.ts";

export function addChannel(program: Command): void {
  const group = program.command("channel").description("publish an answer while it is made, follow it, and stop it");
  for (const add of [addPublish, addTail, addLs, addStop]) add(group);
}
