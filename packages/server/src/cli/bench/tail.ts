/** `sluice bench tail`: measures the delay from an append to each of many live readers. */
import { type SseEvent, SseParser } from "@sluice/client";
import type { Command } from "commander";
import { parseCount } from "../duration.ts";
import { CliError, exitCodeOf } from "../exit.ts";
import { examples } from "../help.ts";
import { type Remote, remoteOf } from "../remote.ts";
import { Connections } from "./connection.ts";
import { addRunOptions, Run, type RunOptions, withStreams } from "./run.ts";

interface Options extends RunOptions {
  readonly readers: string;
  readonly rate: string;
}

const TYPE = "application/json";
const MAX_EVENT_CHARS = 64 * 1024 * 1024;

export function addTail(group: Command): void {
  const command = group
    .command("tail")
    .description("append at a steady rate and measure how soon live readers have each message")
    .option("--readers <N>", "live readers of the stream", "10")
    .option("--rate <N>", "messages a second", "100")
    .action(tail);
  addRunOptions(command, "deliveries");
  examples(command, [
    ["sluice bench tail", "ten seconds, 10 readers, 100 messages a second"],
    ["sluice bench tail --readers 1000 --rate 20", "many readers"],
  ]);
}

async function tail(options: Options): Promise<void> {
  const remote = remoteOf(options);
  const readers = parseCount("--readers", options.readers, 10_000);
  const rate = parseCount("--rate", options.rate, 100_000);
  const padding = "x".repeat(Math.max(0, parseCount("--bytes", options.bytes, 2 ** 20) - 40));
  await withStreams(remote, 1, TYPE, options.keep, async ([stream]) => {
    const url = remote.streamUrl(stream!.path);
    const connected = new AbortController();
    const listeners = await Promise.all(Array.from({ length: readers }, () => connect(remote, url, connected.signal)));
    const run = new Run("tail", "deliveries", options);
    const listening = listeners.map((body) => listen(body, run));
    const connections = new Connections(remote, 64);
    await publish(connections, url, rate, padding, run);
    connected.abort();
    await Promise.all(listening);
    connections.close();
    await run.finish();
  });
}

async function connect(remote: Remote, url: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  const response = await remote.fetch(`${url}?offset=now&live=sse`, { signal });
  if (response.ok) return response.body!;
  throw new CliError(exitCodeOf(response.status), `a reader is refused: the server answers ${response.status}`);
}

/** Subtracts the time in each message from its arrival time; both come from this process. */
async function listen(body: ReadableStream<Uint8Array>, run: Run): Promise<void> {
  const decoder = new TextDecoder();
  const parser = new SseParser(MAX_EVENT_CHARS);
  try {
    for await (const piece of body) {
      for (const event of parser.push(decoder.decode(piece, { stream: true }))) take(event, run);
    }
  } catch (fault) {
    if (!run.isOver) run.failed(`a reader lost its connection: ${(fault as Error).message}`);
  }
}

function take({ event, data }: SseEvent, run: Run): void {
  if (run.isOver || event !== "data") return;
  const now = performance.now();
  for (const { at, x } of JSON.parse(data) as { at: number; x: string }[]) {
    run.succeeded(now - at, x.length + 40);
  }
}

/** Sends at each tick as many messages as are due, so that a late timer is made up for. */
async function publish(connections: Connections, url: string, rate: number, x: string, run: Run): Promise<void> {
  const startedAt = performance.now();
  const underWay = new Set<Promise<void>>();
  let sent = 0;
  while (!run.isOver) {
    const due = Math.floor(((performance.now() - startedAt) / 1_000) * rate) + 1;
    for (; sent < due && underWay.size < 1_000; sent++) {
      const body = JSON.stringify({ at: performance.now(), x });
      const sending = connections.send("POST", url, { "Content-Type": TYPE }, body).then(
        ({ status }) => (status === 204 ? undefined : run.failed(`the server answers ${status}`)),
        (fault: Error) => run.failed(fault.message),
      );
      underWay.add(sending);
      void sending.finally(() => underWay.delete(sending));
    }
    await new Promise((resolve) => setTimeout(resolve, Math.min(10, 1_000 / rate)));
  }
  await Promise.all(underWay);
}
