/** `sluice subscription seek`: moves a subscription to another time, or to a snapshot. */
import type { SeekTarget } from "@sluice/protocol/pull";
import type { Command } from "commander";
import { usage } from "../exit.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line } from "../terminal.ts";

interface Options extends RemoteOptions {
  readonly snapshot?: string;
}

export function addSeek(subscription: Command): void {
  const command = subscription
    .command("seek")
    .description(
      "deliver again messages published from a time on, or skip those that wait; outstanding ack ids are void",
    )
    .argument("<subscription>", "the name of the subscription")
    .argument("[to]", "earliest, latest, or a time")
    .option("--snapshot <NAME>", "deliver what was not acknowledged when this snapshot was made, and everything later")
    .action(seek);
  addRemoteOptions(command);
  examples(command, [
    ["sluice subscription seek billing earliest", "everything that is kept, again"],
    ["sluice subscription seek billing 2026-01-31T12:00Z", "everything since then, again"],
    ["sluice subscription seek billing latest", "skip what waits"],
  ]);
}

async function seek(name: string, to: string | undefined, { snapshot, ...options }: Options): Promise<void> {
  if ((to === undefined) === (snapshot === undefined)) throw usage("give either a place or --snapshot");
  const target: SeekTarget = snapshot === undefined ? { timeMs: timeOf("the place", to!) } : { snapshot };
  await remoteOf(options).pull(({ queue }) => queue.seek(name, target));
  await line(`moved ${harmless(name)} to ${harmless(to ?? snapshot!)}`);
}

/** Epoch ms of a word, or of a time as the user writes it. */
export function timeOf(flag: string, text: string): number {
  if (text === "earliest") return 0;
  if (text === "latest") return Date.now();
  const ms = /^\d+$/.test(text) ? Number(text) : Date.parse(text);
  if (Number.isSafeInteger(ms) && ms >= 0) return ms;
  throw usage(`${flag} must be earliest, latest or a time like 2026-01-31T12:00Z, not ${JSON.stringify(text)}`);
}
