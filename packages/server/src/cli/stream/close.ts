/** `sluice stream close`: ends a stream for appends, and tells its readers that it is complete. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line } from "../terminal.ts";

export function addClose(group: Command): void {
  const command = group
    .command("close")
    .description("close a stream; its readers learn that it is complete")
    .argument("<path>", "the path of the stream")
    .action(close);
  addRemoteOptions(command);
  examples(command, [["sluice stream close chat/room1", "there is no way to open it again"]]);
}

async function close(path: string, options: RemoteOptions): Promise<void> {
  const { offset } = await remoteOf(options).stream(path).close();
  await line(`closed ${harmless(path)} at ${offset}`);
}
