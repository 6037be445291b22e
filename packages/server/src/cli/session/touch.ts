/** `sluice session touch`: keeps a session that no reader uses. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { line } from "../terminal.ts";
import { SESSION_ARGUMENT, sessionIdOf } from "./id.ts";

interface Options extends RemoteOptions {
  readonly json?: boolean;
}

export function addTouch(group: Command): void {
  const command = group
    .command("touch")
    .description("prolong a session; prints when it expires")
    .argument("<session>", SESSION_ARGUMENT)
    .option("--json", "as a JSON object, with the time in ms since 1970")
    .action(touch);
  addRemoteOptions(command);
  examples(command, [
    ["sluice session touch $S", "as a read does"],
    ["sluice session touch $S --json", "for scripts"],
  ]);
}

async function touch(session: string, options: Options): Promise<void> {
  const touched = await remoteOf(options).inbox(sessionIdOf(session)).touch();
  await line(options.json ? JSON.stringify(touched) : new Date(touched.expiresAt).toISOString());
}
