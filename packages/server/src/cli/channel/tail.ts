/**
 * `sluice channel tail`: what a channel has, then what comes, until its END. A lost connection or a restarted server costs nothing:
 * it asks again from the last event it has seen.
 */
import type { Command } from "commander";
import { parseCount } from "../duration.ts";
import { eventsOf, type SseEvent } from "../events.ts";
import { CliError, EXIT } from "../exit.ts";
import { examples } from "../help.ts";
import { Patience, pause } from "../patience.ts";
import { addRemoteOptions, type Remote, type RemoteOptions, refusal, remoteOf } from "../remote.ts";
import { offsetOf } from "../stream/messages.ts";
import { harmless, line, say, write } from "../terminal.ts";
import { untilEnded } from "../until-ended.ts";

interface Options extends RemoteOptions {
  readonly from: string;
  readonly json?: boolean;
  readonly lines?: boolean;
  readonly wait?: boolean;
  readonly limit?: string;
}

const AGAIN_MS = 100;

export function addTail(group: Command): void {
  const command = group
    .command("tail")
    .description("follow a channel until its END or until you end it; reconnects by itself")
    .argument("<channel>", "the id of the channel")
    .option("--from <OFFSET>", "beginning, now, or the offset after which to start", "beginning")
    .option("--wait", "wait for the START of a channel that is not there yet")
    .option("--json", "one event per line, as JSON: offset, phase, sequence, payload; gaps too")
    .option("--lines", "the payload of every DELTA on a line of its own")
    .option("--limit <N>", "end after N messages")
    .action(tail);
  addRemoteOptions(command);
  examples(command, [
    ["sluice channel tail answers/7", "the answer so far and as it goes on, as text"],
    ["sluice channel tail answers/7 --wait --json", "every event, from the START on"],
    ["sluice channel tail answers/7 --from now --lines", "what comes from now on"],
  ]);
}

async function tail(channel: string, options: Options): Promise<void> {
  const remote = remoteOf(options);
  const from = offsetOf(options.from);
  const limit = options.limit === undefined ? Number.POSITIVE_INFINITY : parseCount("--limit", options.limit);
  await untilEnded((signal) => new Tail(remote, channel, options, limit, signal).run(from));
}

interface Data {
  readonly phase?: string;
  readonly payload?: unknown;
  readonly gap?: { readonly expected: number };
}

class Tail {
  private readonly patience: Patience;
  private last: string | undefined;
  private isOver = false;
  /** Whether the text so far ends in the middle of a line. */
  private isOpenLine = false;

  constructor(
    private readonly remote: Remote,
    private readonly channel: string,
    private readonly options: Options,
    private left: number,
    private readonly signal: AbortSignal,
  ) {
    this.patience = new Patience(signal);
  }

  async run(from: string): Promise<void> {
    while (!this.isOver) {
      try {
        const response = await this.ask(from);
        this.patience.rest();
        if (response.status === 204) break;
        for await (const event of eventsOf(response.body!)) {
          await this.take(event);
          if (this.isOver) break;
        }
        // The server ends connections now and then, and one that did so at once must not be stormed.
        if (!this.isOver) await pause(AGAIN_MS, this.signal);
      } catch (fault) {
        if (this.signal.aborted) throw fault;
        const why = fault instanceof CliError ? fault : new CliError(EXIT.unavailable, "the connection was lost");
        if (why.exitCode !== EXIT.unavailable) throw why;
        await this.patience.wait(why);
      }
    }
    if (this.isOpenLine && process.stdout.isTTY) await line();
  }

  private async ask(from: string): Promise<Response> {
    const query = new URLSearchParams(this.options.wait ? { wait: "true" } : {});
    if (this.last !== undefined) query.set("from", this.last);
    else if (from !== "-1") query.set("from", from);
    const url = `${this.remote.channelUrl(this.channel)}/events?${query}`;
    const response = await this.remote.send("GET", url, { signal: this.signal });
    if (!response.ok) throw await refusal(response);
    return response;
  }

  private async take({ event, id, data }: SseEvent): Promise<void> {
    this.last = id ?? this.last;
    if (event === "gap") await this.takeGap(data);
    if (event !== "stream") return;
    const message = JSON.parse(data) as Data;
    await this.show(message, data);
    if (message.phase === "END" || --this.left <= 0) this.isOver = true;
  }

  private async takeGap(data: string): Promise<void> {
    if (this.options.json) await line(`{"event":"gap",${data.slice(1)}`);
    else say("what came before is not kept any more");
  }

  private async show({ phase, payload, gap }: Data, data: string): Promise<void> {
    if (this.options.json) {
      await line(`{"event":"stream","offset":"${this.last}",${data.slice(1)}`);
      return;
    }
    if (gap !== undefined) say(`the publisher left something out: ${gap.expected} was expected`);
    if (phase === "ERROR") say(`the publisher says ERROR: ${harmless(JSON.stringify(payload))}`);
    if (phase === "DELTA") await this.showDelta(typeof payload === "string" ? payload : undefined, payload);
  }

  /** Text goes out as it is, so that the pieces make the whole; any other payload is a line of JSON. */
  private async showDelta(text: string | undefined, payload: unknown): Promise<void> {
    if (text === undefined || this.options.lines) {
      await line(text ?? JSON.stringify(payload));
      return;
    }
    if (text === "") return;
    await write(text);
    this.isOpenLine = !text.endsWith("\n");
  }
}
