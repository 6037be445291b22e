/** `sluice session rm`: deletes sessions with their copies and subscriptions. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { line } from "../terminal.ts";
import { sessionIdOf } from "./id.ts";

export function addRm(group: Command): void {
  const command = group
    .command("rm")
    .description("delete sessions with their inboxes and subscriptions")
    .argument("<session...>", "the ids of the sessions")
    .action(remove);
  addRemoteOptions(command);
  examples(command, [
    ["sluice session rm $S", "one; the streams it followed stay"],
    ["sluice session rm $S $T", "several; ends at the first that fails"],
  ]);
}

async function remove(sessions: readonly string[], options: RemoteOptions): Promise<void> {
  const ids = sessions.map(sessionIdOf);
  const remote = remoteOf(options);
  for (const id of ids) {
    await remote.inbox(id).delete();
    await line(`deleted ${id}`);
  }
}
