/**
 * `sluice session subscribe`: lets a session follow streams; makes the session when there is none. The id alone goes to standard
 * output, so that a script can keep it.
 */
import { randomUUID } from "node:crypto";
import { header } from "@sluice/protocol";
import type { Command } from "commander";
import { CliError, usage } from "../exit.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { offsetOf } from "../stream/messages.ts";
import { line, say } from "../terminal.ts";
import { sessionIdOf } from "./id.ts";

interface Options extends RemoteOptions {
  readonly session?: string;
  readonly envelope?: boolean;
  readonly from?: string;
  readonly json?: boolean;
}

interface Subscribed {
  readonly sessionId: string;
  readonly streamId: string;
  readonly expiresAt: number;
  readonly isNewSession: boolean;
}

export function addSubscribe(group: Command): void {
  const command = group
    .command("subscribe")
    .description("let a session follow streams; prints the session's id")
    .argument("<stream...>", "the paths of the streams")
    .option("-s, --session <ID>", "the session, a UUID; made when there is none of that id (default: a new one)")
    .option("--envelope", "copies tell which stream they are from, and streams of any type can be followed together")
    .option("--from <OFFSET>", "now, beginning, or the offset after which to start", "now")
    .option("--json", "print the server's answers, one per stream")
    .action(subscribe);
  addRemoteOptions(command);
  examples(command, [
    ["sluice session subscribe notices/ada notices/all --envelope", "a new session that follows two streams"],
    ["S=$(sluice session subscribe chat/room1)", "keep its id"],
    ["sluice session subscribe chat/room2 --session $S --from beginning", "one more stream, with what it holds"],
  ]);
}

async function subscribe(streams: readonly string[], options: Options): Promise<void> {
  const from = offsetOf(options.from ?? "now");
  if (streams.length > 1 && from !== "now" && from !== "-1") {
    throw usage("an offset is one of a certain stream, so --from takes one with a single stream only");
  }
  const sessionId = options.session === undefined ? randomUUID() : sessionIdOf(options.session);
  const remote = remoteOf(options);
  const format = options.envelope ? "envelope" : "raw";
  let expiresAt = 0;
  for (const [i, streamId] of streams.entries()) {
    const body = JSON.stringify({ sessionId, streamId, format, ...(from === "now" ? {} : { from }) });
    const headers = { [header.contentType]: "application/json" };
    try {
      const response = await remote.call("POST", remote.subscribingUrl("subscribe"), { headers, body });
      const answer = (await response.json()) as Subscribed;
      if (options.json) await line(JSON.stringify(answer));
      expiresAt = answer.expiresAt;
    } catch (fault) {
      if (i === 0 || !(fault instanceof CliError)) throw fault;
      // Whoever goes on must know the id, which may be a new one.
      throw new CliError(
        fault.exitCode,
        `${fault.message}; the session ${sessionId} follows ${streams.slice(0, i).join(", ")}`,
      );
    }
  }
  if (options.json) return;
  await line(sessionId);
  const kept = `kept until ${new Date(expiresAt).toISOString()}, and longer whenever it is read`;
  if (process.stderr.isTTY) say(`follow it with: sluice session tail ${sessionId} (${kept})`);
}
