/**
 * `sluice stream tail 'chat/#'`: follows every stream that matches a topic filter, those that are made later too. Each message is
 * one line: the path and the message, or with `--json` an envelope with its stream. Called by `stream tail`.
 *
 * Invariants: the messages of one stream come in order. The number of streams is bounded, because each takes a connection.
 */
import { SluiceError } from "@sluice/client";
import { usage } from "../exit.ts";
import type { Remote } from "../remote.ts";
import { bold, harmless, line } from "../terminal.ts";
import type { FormatOptions } from "./messages.ts";
import type { StartOptions } from "./start.ts";

const MOST_STREAMS = 100;
const LOOK_MS = 2_000;

export async function tailMany(
  remote: Remote,
  filter: string,
  options: FormatOptions & StartOptions,
  limit: number,
  signal: AbortSignal,
): Promise<void> {
  if (options.since !== undefined || options.last !== undefined) {
    throw usage("--since and --last are for one stream; a topic filter takes --from beginning or now");
  }
  const { from = "now" } = options;
  if (from !== "now" && from !== "beginning") throw usage("with a topic filter, --from must be beginning or now");
  const many = new Many(remote, options, limit, signal);
  await many.follow(filter, from);
}

class Many {
  private readonly followed = new Map<string, Promise<void>>();
  private readonly ending = new AbortController();

  constructor(
    private readonly remote: Remote,
    private readonly options: FormatOptions,
    private left: number,
    private readonly signal: AbortSignal,
  ) {
    signal.addEventListener("abort", () => this.ending.abort());
  }

  async follow(filter: string, first: string): Promise<void> {
    let failure: unknown;
    for (let from = first; !this.ending.signal.aborted; from = "beginning") {
      for await (const { path } of this.remote.sluice(Number.POSITIVE_INFINITY).list({ filter })) {
        if (this.followed.has(path)) continue;
        if (this.followed.size === MOST_STREAMS) {
          throw usage(`more than ${MOST_STREAMS} streams match ${filter}; give a narrower topic filter`);
        }
        const following = this.one(path, from).catch((fault) => {
          failure ??= fault;
          this.ending.abort();
        });
        this.followed.set(path, following);
      }
      await pause(LOOK_MS, this.ending.signal);
    }
    await Promise.all(this.followed.values());
    if (failure !== undefined) throw failure;
    this.signal.throwIfAborted();
  }

  private async one(path: string, from: string): Promise<void> {
    try {
      for await (const item of this.remote.stream(path).read({ from, live: true, signal: this.ending.signal })) {
        if (item.type !== "message" || this.left <= 0) continue;
        this.left--;
        await this.show(path, item.offset, item.value);
        if (this.left <= 0) this.ending.abort();
      }
    } catch (fault) {
      // A stream that is deleted is no fault of the others.
      if (!(fault instanceof SluiceError) || fault.status !== 404) throw fault;
    }
  }

  private show(path: string, offset: string, value: unknown): Promise<void> {
    const isBytes = value instanceof Uint8Array;
    const payload = isBytes ? Buffer.from(value).toString("base64") : value;
    if (this.options.json || this.options.envelope) {
      return line(JSON.stringify({ stream: path, offset, payload, ...(isBytes && { encoding: "base64" }) }));
    }
    const text = typeof payload === "string" ? payload : JSON.stringify(payload);
    return line(`${bold(harmless(path))}  ${text}`);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
