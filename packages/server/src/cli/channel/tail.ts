/**
 * `sluice channel tail`: prints the messages of a channel, then the new ones, until its END. The client reconnects from
 * the last event that it received.
 */
import { type ChannelEvent, SluiceError } from "@sluice/client";
import type { Command } from "commander";
import { CliError, EXIT, endSignal } from "../exit.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { fromOf, limitOf } from "../stream/messages.ts";
import { harmless, line, say, write } from "../terminal.ts";

interface Options extends RemoteOptions {
  readonly from: string;
  readonly json?: boolean;
  readonly lines?: boolean;
  readonly wait?: boolean;
  readonly limit?: string;
}

export function addTail(group: Command): void {
  const command = group
    .command("tail")
    .description("follow a channel until its END or until you end it; reconnects by itself")
    .argument("<channel>", "the id of the channel")
    .option("--from <OFFSET>", "beginning, now, or the offset after which to start", "beginning")
    .option("--wait", "wait for the START of a channel that does not exist yet")
    .option("--json", "one event per line, as JSON: offset, phase, sequence, payload; gaps too")
    .option("--lines", "the payload of every DELTA on a line of its own")
    .option("--limit <N>", "end after N messages")
    .action(tail);
  addRemoteOptions(command);
  examples(command, [
    ["sluice channel tail answers/7", "the answer so far and as it continues, as text"],
    ["sluice channel tail answers/7 --wait --json", "every event, from the START on"],
    ["sluice channel tail answers/7 --from now --lines", "new messages only"],
  ]);
}

async function tail(channel: string, options: Options): Promise<void> {
  const from = fromOf(options.from);
  let left = limitOf(options.limit);
  const waitMs = options.wait ? Number.POSITIVE_INFINITY : 0;
  const view = new View(options);
  try {
    for await (const event of remoteOf(options).channel(channel).events({ from, waitMs, signal: endSignal() })) {
      await view.show(event);
      if (event.event === "stream" && --left <= 0) break;
    }
  } catch (fault) {
    if (!(fault instanceof SluiceError) || fault.code !== "channel-not-found") throw fault;
    throw new CliError(EXIT.notFound, `there is no channel ${channel}; --wait waits for its START`);
  }
  await view.end();
}

class View {
  /** Whether the text so far ends in the middle of a line. */
  private isLineOpen = false;

  constructor(private readonly options: Options) {}

  async show(event: ChannelEvent): Promise<void> {
    if (this.options.json) return showJson(event);
    if (event.event === "gap") return say("what came before is not kept any more");
    if (event.event === "stop") return say("a reader has asked the publisher to stop");
    const { phase, payload, gap } = event.message;
    if (gap !== undefined) say(`the publisher left something out: ${gap.expected} was expected`);
    if (phase === "ERROR") say(`the publisher says ERROR: ${harmless(JSON.stringify(payload))}`);
    if (phase === "DELTA") await this.showDelta(payload);
  }

  /** On a terminal, the next prompt begins on a line of its own. */
  async end(): Promise<void> {
    if (this.isLineOpen && process.stdout.isTTY) await line();
  }

  /** Text is printed unchanged, so that the pieces form the whole; any other payload is a line of JSON. */
  private async showDelta(payload: unknown): Promise<void> {
    if (typeof payload !== "string") return line(JSON.stringify(payload));
    if (this.options.lines) return line(payload);
    if (payload === "") return;
    await write(payload);
    this.isLineOpen = !payload.endsWith("\n");
  }
}

/** The event's own text, so that numbers of any size keep their digits. */
function showJson({ event, offset, data }: ChannelEvent): Promise<void> {
  const own = event === "stream" ? `"event":"stream","offset":"${offset}"` : `"event":"${event}"`;
  return line(`{${own},${data.slice(1)}`);
}
