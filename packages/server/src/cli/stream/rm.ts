/** `sluice stream rm`: deletes streams with all their messages. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line } from "../terminal.ts";

export function addRm(group: Command): void {
  const command = group
    .command("rm")
    .description("delete streams and everything in them")
    .argument("<path...>", "the paths of the streams")
    .action(remove);
  addRemoteOptions(command);
  examples(command, [
    ["sluice stream rm chat/room1", "one"],
    ["sluice stream rm chat/room1 chat/room2", "several; ends at the first that fails"],
  ]);
}

async function remove(paths: readonly string[], options: RemoteOptions): Promise<void> {
  const remote = remoteOf(options);
  for (const stream of paths.map((path) => remote.stream(path))) {
    await stream.delete();
    await line(`deleted ${harmless(stream.path)}`);
  }
}
