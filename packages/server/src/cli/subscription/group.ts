/** `sluice subscription`: the commands for subscriptions, which keep what is delivered of a topic and acknowledged. */
import type { Command } from "commander";
import { addCreate } from "./create.ts";
import { addInfo } from "./info.ts";
import { addLs } from "./ls.ts";
import { addRedrive } from "./redrive.ts";
import { addRm } from "./rm.ts";
import { addSeek } from "./seek.ts";

export function addSubscription(program: Command): void {
  const subscription = program
    .command("subscription")
    .description("subscriptions of pull: workers take single messages of a topic and acknowledge each");
  for (const add of [addLs, addCreate, addInfo, addSeek, addRedrive, addRm]) add(subscription);
}
