/**
 * `sluice session tail`: what a session has been copied, then what comes, over server-sent events. A lost connection or a restarted
 * server costs nothing: it asks again from where it stands.
 *
 * What must stay true: a piece is written out only when its offset is known too, so that nothing is shown twice after a broken
 * connection.
 */
import type { Command } from "commander";
import { isJson } from "../../streams/state.ts";
import { parseCount } from "../duration.ts";
import { eventsOf, type SseEvent } from "../events.ts";
import { CliError, EXIT } from "../exit.ts";
import { examples } from "../help.ts";
import { Patience, pause } from "../patience.ts";
import { addRemoteOptions, type Remote, type RemoteOptions, refusal, remoteOf } from "../remote.ts";
import { contentTypeOf, type Format, type FormatOptions, formatFor, offsetOf, writePage } from "../stream/messages.ts";
import { untilEnded } from "../until-ended.ts";
import { SESSION_ARGUMENT, sessionIdOf } from "./id.ts";

interface Options extends RemoteOptions, FormatOptions {
  readonly from: string;
  readonly limit?: string;
}

const AGAIN_MS = 100;

export function addTail(group: Command): void {
  const command = group
    .command("tail")
    .description("follow what is copied into a session until you end it; reconnects by itself")
    .argument("<session>", SESSION_ARGUMENT)
    .option("--from <OFFSET>", "beginning, now, or the offset after which to start", "beginning")
    .option("--json", "one JSON value per line: messages of a JSON session, envelopes of any other")
    .option("--lines", "each message as it is, with a line end after it; on a terminal, text is always shown so")
    .option("--envelope", "one envelope per line: offset in the session, time, payload, key, attributes")
    .option("--limit <N>", "end after N messages")
    .action(tail);
  addRemoteOptions(command);
  examples(command, [
    ["sluice session tail $S", "everything it holds, then what comes; Ctrl-C ends it"],
    ["sluice session tail $S --from now", "what comes from now on"],
    ["sluice session tail $S --envelope", "with the offset of each, which --from takes to go on"],
  ]);
}

async function tail(session: string, options: Options): Promise<void> {
  const id = sessionIdOf(session);
  const remote = remoteOf(options);
  const from = offsetOf(options.from);
  const limit = options.limit === undefined ? Number.POSITIVE_INFINITY : parseCount("--limit", options.limit);
  await untilEnded(async (signal) => {
    // Asked about as a session first, so that a refusal speaks of one.
    await (await remote.call("GET", remote.sessionUrl(id), { signal })).arrayBuffer();
    const type = await contentTypeOf(remote, `session:${id}`, signal);
    await new Tail(remote, id, formatOf(type, options), limit, signal).run(from);
  });
}

/** Events carry text only and change its line ends, so whatever is not JSON travels in envelopes and is unpacked here. */
function formatOf(type: string, options: Options): Format {
  const format = formatFor(type, options, true);
  return isJson(type) || format.envelope ? format : { envelope: true, lines: false, payload: true };
}

class Tail {
  private readonly patience: Patience;
  private offset = "";
  private piece: string | undefined;
  private isOver = false;

  constructor(
    private readonly remote: Remote,
    private readonly id: string,
    private readonly format: Format,
    private left: number,
    private readonly signal: AbortSignal,
  ) {
    this.patience = new Patience(signal);
  }

  async run(from: string): Promise<void> {
    this.offset = from;
    while (!this.isOver) {
      this.piece = undefined;
      try {
        const response = await this.ask();
        this.patience.rest();
        for await (const event of eventsOf(response.body!)) {
          await this.take(event);
          if (this.isOver) return;
        }
        // The server ends connections now and then, and one that did so at once must not be stormed.
        await pause(AGAIN_MS, this.signal);
      } catch (fault) {
        if (this.signal.aborted) throw fault;
        const why = fault instanceof CliError ? fault : new CliError(EXIT.unavailable, "the connection was lost");
        if (why.exitCode !== EXIT.unavailable) throw why;
        await this.patience.wait(why);
      }
    }
  }

  private async ask(): Promise<Response> {
    const query = new URLSearchParams({ offset: this.offset, live: "sse" });
    if (this.format.envelope) query.set("format", "envelope");
    const url = `${this.remote.streamUrl(`session:${this.id}`)}?${query}`;
    const response = await this.remote.send("GET", url, { signal: this.signal });
    if (response.ok) return response;
    if (response.status !== 404) throw await refusal(response);
    throw new CliError(EXIT.notFound, `the session ${this.id} is over: it was deleted, or not used for too long`);
  }

  private async take({ event, data }: SseEvent): Promise<void> {
    if (event === "data") this.piece = data;
    if (event !== "control") return;
    if (this.piece !== undefined) this.left -= await writePage(Buffer.from(this.piece), this.format, this.left);
    this.piece = undefined;
    this.offset = (JSON.parse(data) as { readonly streamNextOffset: string }).streamNextOffset;
    if (this.left <= 0) this.isOver = true;
  }
}
