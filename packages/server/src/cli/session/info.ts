/** `sluice session info`: the streams that a session follows, and when it expires. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line, listing, table } from "../terminal.ts";
import { SESSION_ARGUMENT, sessionIdOf } from "./id.ts";

interface Options extends RemoteOptions {
  readonly json?: boolean;
}

export function addInfo(group: Command): void {
  const command = group
    .command("info")
    .description("show the subscriptions of a session and when it expires")
    .argument("<session>", SESSION_ARGUMENT)
    .option("--json", "as a JSON object")
    .action(info);
  addRemoteOptions(command);
  examples(command, [
    ["sluice session info $S", "its subscriptions, and what they missed"],
    ["sluice session info $S --json", "for scripts"],
  ]);
}

async function info(session: string, options: Options): Promise<void> {
  const found = await remoteOf(options).inbox(sessionIdOf(session)).info();
  if (options.json) return line(JSON.stringify(found));
  const { sessionId, sessionStreamPath, expiresAt, subscriptions } = found;
  const own = { sessionId, sessionStreamPath, expiresAt: timeText(expiresAt) };
  await line(table(Object.entries(own)));
  if (subscriptions.length === 0) return line("it follows no stream");
  const rows = subscriptions.map(({ streamId, subscribedAt, format, missed }) => [
    harmless(streamId),
    timeText(subscribedAt),
    format,
    missed === undefined ? "-" : `after ${missed.after} through ${missed.through}`,
  ]);
  await line(`\n${listing(["STREAM", "SINCE", "FORMAT", "MISSED"], rows)}`);
}

function timeText(ms: number): string {
  return new Date(ms).toISOString();
}
