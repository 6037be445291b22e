/** `sluice wake create`: makes a wake subscription, which wakes a worker when messages wait for it. */
import { SluiceError } from "@sluice/client";
import type { Command } from "commander";
import { parseSeconds } from "../duration.ts";
import { usage } from "../exit.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type Remote, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line } from "../terminal.ts";
import { subscriptionPath, type WakeSubscription } from "./subscription.ts";

interface Options extends RemoteOptions {
  readonly pattern?: string;
  readonly webhook?: string;
  readonly wakeStream?: string;
  readonly lease?: string;
  readonly description?: string;
}

export function addCreate(group: Command): void {
  const command = group
    .command("create")
    .description("create a wake subscription: a webhook, or events in a stream, when messages wait")
    .argument("<id>", "the id of the subscription")
    .argument("[streams...]", "the paths of the streams (or --pattern)")
    .option("--pattern <GLOB>", "every stream that matches: * is one level, ** any number")
    .option("--webhook <URL>", "the server posts to this address")
    .option("--wake-stream <PATH>", "the server appends an event to this stream, which is created if it is missing")
    .option("--lease <TIME>", "how long a worker may take, like 30s (default: the server's)")
    .option("--description <TEXT>", "a description for other people")
    .action(create);
  addRemoteOptions(command);
  examples(command, [
    ["sluice wake create mailer --pattern 'orders/*' --webhook https://app.example.com/wake", "by webhook"],
    ["sluice wake create mailer orders/eu orders/us --wake-stream wakes/mailer", "by events in a stream"],
  ]);
}

async function create(id: string, streams: readonly string[], options: Options): Promise<void> {
  const { pattern, webhook, wakeStream, lease, description } = options;
  if ((webhook === undefined) === (wakeStream === undefined)) throw usage("give either --webhook or --wake-stream");
  if (pattern === undefined && streams.length === 0) throw usage("give the streams, or a --pattern");
  const remote = remoteOf(options);
  if (wakeStream !== undefined) await createMissing(remote, wakeStream);
  const { type } = await remote.request<WakeSubscription>("PUT", subscriptionPath(id), {
    type: webhook === undefined ? "pull-wake" : "webhook",
    pattern,
    streams: streams.length === 0 ? undefined : streams,
    webhook: webhook === undefined ? undefined : { url: webhook },
    wake_stream: wakeStream,
    lease_ttl_ms: lease === undefined ? undefined : parseSeconds("--lease", lease) * 1_000,
    description,
  });
  await line(`created ${harmless(id)} (${type})`);
}

/** Without its stream every wake would fail. */
async function createMissing(remote: Remote, path: string): Promise<void> {
  try {
    await remote.stream(path).create();
  } catch (error) {
    const isThere = error instanceof SluiceError && error.status === 409;
    if (!isThere) throw error;
  }
}
