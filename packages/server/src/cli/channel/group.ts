/** `sluice channel`: the commands that work on channels of a server. */
import type { Command } from "commander";
import { addPublish } from "./publish.ts";
import { addTail } from "./tail.ts";

export function addChannel(program: Command): void {
  const group = program.command("channel").description("publish an answer while it is made, and follow it");
  for (const add of [addPublish, addTail]) add(group);
}
