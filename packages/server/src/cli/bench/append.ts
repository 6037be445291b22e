/** `sluice bench append`: measures how many messages a second the server makes durable, and the latency of each. */
import type { Command } from "commander";
import { parseCount } from "../duration.ts";
import { examples } from "../help.ts";
import { remoteOf } from "../remote.ts";
import { Connections } from "./connection.ts";
import { addRunOptions, Run, type RunOptions, withStreams } from "./run.ts";

interface Options extends RunOptions {
  readonly connections: string;
  readonly streams: string;
}

const TYPE = "text/plain";

export function addAppend(group: Command): void {
  const command = group
    .command("append")
    .description("append messages as fast as the server takes them")
    .option("--connections <N>", "concurrent requests", "16")
    .option("--streams <N>", "streams to spread them over", "1")
    .action(append);
  addRunOptions(command, "messages");
  examples(command, [
    ["sluice bench append", "ten seconds, 16 connections, messages of 256 bytes"],
    ["sluice bench append --connections 64 --streams 100 --seconds 30", "more connections, streams and time"],
    ["sluice bench append --csv >> results.csv", "for a spreadsheet"],
  ]);
}

async function append(options: Options): Promise<void> {
  const remote = remoteOf(options);
  const count = parseCount("--connections", options.connections, 10_000);
  const streams = parseCount("--streams", options.streams, 10_000);
  const body = "x".repeat(parseCount("--bytes", options.bytes, 2 ** 27));
  await withStreams(remote, streams, TYPE, options.keep, async (made) => {
    const urls = made.map(({ path }) => remote.streamUrl(path));
    const connections = new Connections(remote, count);
    const run = new Run("append", "messages", options);
    let turn = 0;
    const loop = async () => {
      while (run.begin()) {
        const url = urls[turn++ % urls.length]!;
        const startedAt = performance.now();
        try {
          const { status } = await connections.send("POST", url, { "Content-Type": TYPE }, body);
          if (status === 204 || status === 200) run.succeeded(performance.now() - startedAt, body.length);
          else run.failed(`the server answers ${status}`);
        } catch (fault) {
          run.failed((fault as Error).message);
        }
      }
    };
    await Promise.all(Array.from({ length: count }, loop));
    connections.close();
    await run.finish();
  });
}
