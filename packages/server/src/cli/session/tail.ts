/**
 * `sluice session tail`: prints the messages of a session, then the new copies. The client reconnects at its position,
 * until the session is over, enough messages were printed, or the user ends the command.
 */
import { SluiceError } from "@sluice/client";
import type { Command } from "commander";
import { isJson } from "../../streams/state.ts";
import { CliError, EXIT, endSignal } from "../exit.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { type Format, type FormatOptions, formatFor, fromOf, limitOf, writePages } from "../stream/messages.ts";
import { SESSION_ARGUMENT, sessionIdOf } from "./id.ts";

interface Options extends RemoteOptions, FormatOptions {
  readonly from: string;
  readonly limit?: string;
}

export function addTail(group: Command): void {
  const command = group
    .command("tail")
    .description("follow the inbox of a session until you end it; reconnects by itself")
    .argument("<session>", SESSION_ARGUMENT)
    .option("--from <OFFSET>", "beginning, now, or the offset after which to start", "beginning")
    .option("--json", "one JSON value per line: messages of a JSON session, envelopes of any other")
    .option("--lines", "each message with a line end after it; a terminal always shows text so")
    .option("--envelope", "one envelope per line: offset in the session, time, payload, key, attributes")
    .option("--limit <N>", "end after N messages")
    .action(tail);
  addRemoteOptions(command);
  examples(command, [
    ["sluice session tail $S", "the inbox, then new messages; Ctrl-C ends it"],
    ["sluice session tail $S --from now", "new messages only"],
    ["sluice session tail $S --envelope", "with the offset of each message, from which --from continues"],
  ]);
}

async function tail(session: string, options: Options): Promise<void> {
  const id = sessionIdOf(session);
  const remote = remoteOf(options);
  const inbox = remote.inbox(id);
  const from = fromOf(options.from);
  const limit = limitOf(options.limit);
  const signal = endSignal();
  // Checked as a session first, so that a refusal names a session.
  await inbox.info({ signal });
  const { contentType } = await remote.stream(`session:${id}`).info({ signal });
  try {
    await writePages(inbox, formatOf(contentType, options), limit, { from, live: true, signal });
  } catch (fault) {
    if (!(fault instanceof SluiceError) || fault.status !== 404) throw fault;
    throw new CliError(EXIT.notFound, `the session ${id} is over: it was deleted, or not used for too long`);
  }
}

/** `--limit` counts messages of any type here, so messages that are not JSON come in envelopes and are unpacked. */
function formatOf(type: string, options: Options): Format {
  const format = formatFor(type, options, true);
  return isJson(type) || format.envelope ? format : { envelope: true, lines: false, payload: true };
}
