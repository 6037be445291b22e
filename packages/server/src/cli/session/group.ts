/** `sluice session`: the commands for sessions, each an inbox for the streams that it follows. */
import type { Command } from "commander";
import { addInfo } from "./info.ts";
import { addLs } from "./ls.ts";
import { addRm } from "./rm.ts";
import { addSubscribe } from "./subscribe.ts";
import { addTail } from "./tail.ts";
import { addTouch } from "./touch.ts";
import { addUnsubscribe } from "./unsubscribe.ts";

export function addSession(program: Command): void {
  const group = program.command("session").description("one inbox for many streams: subscribe, tail, touch, remove");
  for (const add of [addSubscribe, addUnsubscribe, addTail, addLs, addInfo, addTouch, addRm]) add(group);
}
