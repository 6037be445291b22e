/** `sluice wake tail`: prints the wake events of a pull-wake subscription as they come, one JSON value per line. */
import type { Command } from "commander";
import { endSignal, usage } from "../exit.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { fromOf, limitOf, writePages } from "../stream/messages.ts";
import { subscriptionPath, type WakeSubscription } from "./subscription.ts";

interface Options extends RemoteOptions {
  readonly from: string;
  readonly limit?: string;
}

export function addTail(group: Command): void {
  const command = group
    .command("tail")
    .description("follow the wake events of a subscription with --wake-stream")
    .argument("<id>", "the id of the subscription")
    .option("--from <OFFSET>", "beginning, now, or the offset after which to start", "now")
    .option("--limit <N>", "end after N events")
    .action(tail);
  addRemoteOptions(command);
  examples(command, [
    ["sluice wake tail mailer", "every wake of a worker; Ctrl-C ends it"],
    ["sluice wake tail mailer --from beginning --limit 1", "the oldest event that is kept"],
  ]);
}

async function tail(id: string, options: Options): Promise<void> {
  const remote = remoteOf(options);
  const from = fromOf(options.from);
  const limit = limitOf(options.limit);
  const { wake_stream } = await remote.request<WakeSubscription>("GET", subscriptionPath(id));
  if (wake_stream === undefined) throw usage(`${id} wakes by webhook, so it has no stream of wake events`);
  const format = { envelope: false, lines: true };
  // The first wake makes the stream.
  const waitMs = Number.POSITIVE_INFINITY;
  await writePages(remote.stream(wake_stream), format, limit, { from, live: true, waitMs, signal: endSignal() });
}
