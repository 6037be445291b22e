/** `sluice session unsubscribe`: ends subscriptions of a session. The copies so far stay. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line } from "../terminal.ts";
import { SESSION_ARGUMENT, sessionIdOf } from "./id.ts";

export function addUnsubscribe(group: Command): void {
  const command = group
    .command("unsubscribe")
    .description("unsubscribe a session from streams; copies stay")
    .argument("<session>", SESSION_ARGUMENT)
    .argument("<stream...>", "the paths of the streams")
    .action(unsubscribe);
  addRemoteOptions(command);
  examples(command, [
    ["sluice session unsubscribe $S notices/all", "one stream; no error when it was not followed"],
    ["sluice session unsubscribe $S chat/room1 chat/room2", "several; ends at the first that fails"],
  ]);
}

async function unsubscribe(session: string, streams: readonly string[], options: RemoteOptions): Promise<void> {
  const id = sessionIdOf(session);
  const followed = remoteOf(options).inbox(id);
  for (const path of streams) {
    await followed.unsubscribe(path);
    await line(`unsubscribed ${harmless(path)}`);
  }
}
