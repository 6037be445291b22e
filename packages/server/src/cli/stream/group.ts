/** `sluice stream`: the commands for streams. */
import type { Command } from "commander";
import { addAppend } from "./append.ts";
import { addClose } from "./close.ts";
import { addCreate } from "./create.ts";
import { addInfo } from "./info.ts";
import { addLs } from "./ls.ts";
import { addRead } from "./read.ts";
import { addRm } from "./rm.ts";
import { addTail } from "./tail.ts";

export function addStream(program: Command): void {
  const group = program.command("stream").description("create, append to, read, follow, list and delete streams");
  for (const add of [addCreate, addAppend, addRead, addTail, addLs, addInfo, addClose, addRm]) add(group);
}
