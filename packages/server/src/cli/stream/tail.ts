/**
 * `sluice stream tail`: what comes, as it comes. It asks by long-poll from where it stands, so a lost connection or a restarted
 * server costs nothing: it asks again from there, until the stream is closed, enough has come, or its user ends it.
 */

import { header } from "@sluice/protocol";
import type { Command } from "commander";
import { parseCount } from "../duration.ts";
import { CliError, EXIT, usage } from "../exit.ts";
import { examples } from "../help.ts";
import { Patience } from "../patience.ts";
import { addRemoteOptions, type Remote, type RemoteOptions, refusal, remoteOf } from "../remote.ts";
import { untilEnded } from "../until-ended.ts";
import { contentTypeOf, type Format, type FormatOptions, formatFor, offsetOf, writePage } from "./messages.ts";

interface Options extends RemoteOptions, FormatOptions {
  readonly from: string;
  readonly limit?: string;
}

export function addTail(group: Command): void {
  const command = group
    .command("tail")
    .description("follow a stream until it is closed or you end it; reconnects by itself")
    .argument("<path>", "the path of the stream")
    .option("--from <OFFSET>", "beginning, now, or the offset after which to start", "now")
    .option("--json", "one JSON value per line: messages of a JSON stream, envelopes of any other")
    .option("--lines", "each message as it is, with a line end after it; on a terminal, text is always shown so")
    .option("--envelope", "one envelope per line: offset, time, payload, key, attributes")
    .option("--limit <N>", "end after N messages")
    .action(tail);
  addRemoteOptions(command);
  examples(command, [
    ["sluice stream tail chat/room1", "what comes from now on; Ctrl-C ends it"],
    ["sluice stream tail chat/room1 --from beginning", "what there is, then what comes"],
    ["sluice stream tail log/app --json --limit 1", "wait for the next message"],
  ]);
}

async function tail(path: string, options: Options): Promise<void> {
  const remote = remoteOf(options);
  const from = offsetOf(options.from);
  const limit = options.limit === undefined ? Number.POSITIVE_INFINITY : parseCount("--limit", options.limit);
  await untilEnded(async (signal) => {
    const type = await contentTypeOf(remote, path, signal);
    const format = formatFor(type, options, true);
    if (options.limit !== undefined && !format.lines) {
      throw usage(`--limit counts messages, so it needs --json, --lines or --envelope for a stream of ${type}`);
    }
    await new Tail(remote, path, format, signal).run(from, limit);
  });
}

class Tail {
  private readonly patience: Patience;
  private cursor: string | null = null;

  constructor(
    private readonly remote: Remote,
    private readonly path: string,
    private readonly format: Format,
    private readonly signal: AbortSignal,
  ) {
    this.patience = new Patience(signal);
  }

  async run(from: string, limit: number): Promise<void> {
    let offset = from;
    let left = limit;
    for (;;) {
      // Until "now" has become an offset, a failure would lose what comes meanwhile.
      const response = await this.ask(offset, offset === "now" ? undefined : "long-poll");
      const bytes = new Uint8Array(await response.arrayBuffer());
      left -= await writePage(bytes, this.format, left);
      offset = response.headers.get(header.streamNextOffset) ?? offset;
      this.cursor = response.headers.get(header.streamCursor);
      if (left <= 0 || response.headers.get(header.streamClosed) === "true") return;
    }
  }

  /** A success, however many attempts that takes; throws what trying again cannot mend. */
  private async ask(offset: string, live: string | undefined): Promise<Response> {
    const query = new URLSearchParams({ offset, ...(live === undefined ? {} : { live }) });
    if (live !== undefined && this.cursor !== null) query.set("cursor", this.cursor);
    if (this.format.envelope) query.set("format", "envelope");
    for (;;) {
      try {
        const response = await this.remote.send("GET", `${this.remote.streamUrl(this.path)}?${query}`, {
          signal: this.signal,
        });
        if (response.ok) {
          this.patience.rest();
          return response;
        }
        throw await refusal(response);
      } catch (fault) {
        if (!(fault instanceof CliError) || fault.exitCode !== EXIT.unavailable) throw fault;
        await this.patience.wait(fault);
      }
    }
  }
}
