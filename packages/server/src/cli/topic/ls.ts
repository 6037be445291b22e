/** `sluice topic ls`: lists the topics of a project. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { timeText } from "../listed.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line, listing, say } from "../terminal.ts";

interface Options extends RemoteOptions {
  readonly json?: boolean;
}

export function addLs(topic: Command): void {
  const command = topic
    .command("ls")
    .description("list topics: every stream of the project is one")
    .option("--json", "one JSON object per line")
    .action(list);
  addRemoteOptions(command);
  examples(command, [
    ["sluice topic ls", "all of them"],
    ["sluice topic ls --json", "for scripts"],
  ]);
}

async function list(options: Options): Promise<void> {
  const topics = await remoteOf(options).pull(({ queue }) => queue.topics());
  if (options.json) for (const topic of topics) await line(JSON.stringify(topic));
  else if (topics.length === 0) say("there are no topics here; `sluice topic create NAME` makes one");
  else {
    await line(
      listing(
        ["TOPIC", "CREATED"],
        topics.map(({ name, createdAt }) => [harmless(name), timeText(createdAt)]),
      ),
    );
  }
}
