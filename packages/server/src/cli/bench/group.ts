/** `sluice bench`: the commands that measure a running server from the client's side. */
import type { Command } from "commander";
import { addAppend } from "./append.ts";
import { addRead } from "./read.ts";
import { addTail } from "./tail.ts";

export function addBench(program: Command): void {
  const group = program.command("bench").description("measure a running server: appends, reads, live delivery");
  for (const add of [addAppend, addRead, addTail]) add(group);
}
