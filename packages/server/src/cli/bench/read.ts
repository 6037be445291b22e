/** `sluice bench read`: measures how fast a stream is read from its beginning to its end, again and again. */
import { Encoded, type Stream } from "@sluice/client";
import type { Command } from "commander";
import { parseCount } from "../duration.ts";
import { examples } from "../help.ts";
import { remoteOf } from "../remote.ts";
import { Connections } from "./connection.ts";
import { addRunOptions, Run, type RunOptions, withStreams } from "./run.ts";

interface Options extends RunOptions {
  readonly connections: string;
  readonly messages: string;
}

const BATCH = 1_000;

export function addRead(group: Command): void {
  const command = group
    .command("read")
    .description("fill a stream, then read it page by page from several connections")
    .option("--connections <N>", "concurrent readers", "8")
    .option("--messages <N>", "messages in the stream", "10000")
    .action(read);
  addRunOptions(command, "pages");
  examples(command, [
    ["sluice bench read", "ten seconds, 8 readers of 10,000 messages of 256 bytes"],
    ["sluice bench read --bytes 4096 --messages 100000 --connections 1", "one reader of larger ones"],
  ]);
}

async function read(options: Options): Promise<void> {
  const remote = remoteOf(options);
  const count = parseCount("--connections", options.connections, 10_000);
  const messages = parseCount("--messages", options.messages, 10_000_000);
  const message = JSON.stringify("x".repeat(parseCount("--bytes", options.bytes, 2 ** 20)));
  await withStreams(remote, 1, "application/json", options.keep, async ([stream]) => {
    await fill(stream!, messages, message);
    const url = remote.streamUrl(stream!.path);
    const connections = new Connections(remote, count);
    const run = new Run("read", "pages", options);
    const loop = async () => {
      let offset = "-1";
      while (run.begin()) {
        const startedAt = performance.now();
        try {
          const { status, bytes, headers } = await connections.send("GET", `${url}?offset=${offset}`);
          if (status === 200) run.succeeded(performance.now() - startedAt, bytes);
          else run.failed(`the server answers ${status}`);
          const isEnd = headers["stream-up-to-date"] !== undefined;
          offset = isEnd ? "-1" : String(headers["stream-next-offset"] ?? "-1");
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

async function fill(stream: Stream, messages: number, message: string): Promise<void> {
  const size = Math.max(1, Math.min(BATCH, Math.floor((1024 * 1024) / message.length)));
  for (let left = messages; left > 0; left -= size) {
    const body = new Encoded(`[${Array.from({ length: Math.min(size, left) }, () => message).join(",")}]`);
    await stream.append(body);
  }
}
