/** `sluice topic`: the commands for topics, to which messages are published and from which subscriptions deliver them. */
import type { Command } from "commander";
import { addCreate } from "./create.ts";
import { addLs } from "./ls.ts";
import { addPublish } from "./publish.ts";
import { addRm } from "./rm.ts";

export function addTopic(program: Command): void {
  const topic = program
    .command("topic")
    .description("topics of pull: create, publish, list, delete; a topic is a stream");
  for (const add of [addLs, addCreate, addPublish, addRm]) add(topic);
}
