/**
 * `sluice session subscribe`: subscribes a session to streams; creates the session if it does not exist. Only the id
 * goes to standard output, so that a script can keep it.
 */
import { randomUUID } from "node:crypto";
import type { Command } from "commander";
import { usage } from "../exit.ts";
import { failureWith } from "../failure.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { fromOf, isOffset } from "../stream/messages.ts";
import { line, say } from "../terminal.ts";
import { sessionIdOf } from "./id.ts";

interface Options extends RemoteOptions {
  readonly session?: string;
  readonly envelope?: boolean;
  readonly from?: string;
  readonly json?: boolean;
}

export function addSubscribe(group: Command): void {
  const command = group
    .command("subscribe")
    .description("subscribe a session to streams; prints the session's id")
    .argument("<stream...>", "the paths of the streams")
    .option("-s, --session <ID>", "the session, a UUID; created if it does not exist (default: a new one)")
    .option("--envelope", "each copy names its stream, and streams of any type can be followed together")
    .option("--from <OFFSET>", "now, beginning, or the offset after which to start", "now")
    .option("--json", "print the server's answers, one per stream")
    .action(subscribe);
  addRemoteOptions(command);
  examples(command, [
    ["sluice session subscribe notices/ada notices/all --envelope", "a new session that follows two streams"],
    ["S=$(sluice session subscribe chat/room1)", "keep its id"],
    ["sluice session subscribe chat/room2 --session $S --from beginning", "one more stream, with its stored messages"],
  ]);
}

async function subscribe(streams: readonly string[], options: Options): Promise<void> {
  const from = fromOf(options.from ?? "now");
  if (streams.length > 1 && isOffset(from)) {
    throw usage("an offset is one of a certain stream, so --from takes one with a single stream only");
  }
  const id = options.session === undefined ? randomUUID() : sessionIdOf(options.session);
  const session = remoteOf(options).inbox(id);
  const format = options.envelope ? "envelope" : "raw";
  let expiresAt = 0;
  for (const [i, path] of streams.entries()) {
    try {
      const answer = await session.subscribe(path, { format, from });
      if (options.json) await line(JSON.stringify(answer));
      expiresAt = answer.expiresAt;
    } catch (fault) {
      // The user needs the id to continue, and it may be new.
      throw i === 0 ? fault : failureWith(fault, `the session ${id} follows ${streams.slice(0, i).join(", ")}`);
    }
  }
  if (options.json) return;
  await line(id);
  const kept = `kept until ${new Date(expiresAt).toISOString()}, and longer whenever it is read`;
  if (process.stderr.isTTY) say(`follow it with: sluice session tail ${id} (${kept})`);
}
