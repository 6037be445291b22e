/**
 * The library on a clock that the test moves, so that the seed's waits take no time: over a store in process, and over the wire. The
 * tests of the library use it on every engine.
 *
 * Invariants: the wire carries the frames and bodies of a real server; only the network between them is missing.
 */
import { PubSub as WirePubSub } from "@sluice/client/pubsub";
import { type Message, PubSub, type Subscription } from "@sluice/server/pubsub";
import { onTestFinished } from "vitest";
import type { EngineName } from "../e2e/server.ts";
import { type QuietWorld, quietWorld } from "../support/quiet-world.ts";
import { pullEngine } from "./pull-engine.ts";
import { PullLink } from "./pull-link.ts";

/**
 * How programs use the library: in process it has memory or a directory, and over the wire a server with any engine. The frames of
 * a server on disk are those of one in memory, so the wire needs no third engine.
 */
export type Kind = readonly ["in process" | "over the wire", EngineName];
export const KINDS: readonly Kind[] = [
  ["in process", "memory"],
  ["in process", "disk"],
  ["over the wire", "memory"],
  ["over the wire", "redis"],
];

export async function pubSubWorld(...[place, engine]: Kind) {
  const world = quietWorld(1);
  const pubsub = place === "in process" ? await inProcess(engine, world) : await wired(engine, world);
  onTestFinished(() => pubsub.close());
  const topic = await pubsub.topic("my-topic").create();
  return {
    world,
    pubsub,
    topic,
    /** Passes time, and lets everything happen that follows. */
    sleep: (ms: number) => world.pass(ms),
    /** As a listener waits. */
    delay: (ms: number) => new Promise<void>((resolve) => void world.after(ms, resolve)),
    publish: async (...texts: string[]) => {
      for (const text of texts) await topic.publishMessage({ data: Buffer.from(text) });
    },
  };
}

async function inProcess(name: EngineName, world: QuietWorld): Promise<PubSub> {
  const engine = await pullEngine(name, world);
  return new PubSub({}, world, async () => engine);
}

async function wired(engine: EngineName, world: QuietWorld): Promise<WirePubSub> {
  const link = await PullLink.open(engine, world);
  const { fetch, WebSocket } = link;
  return new WirePubSub({ url: "http://link", fetch, WebSocket }, world);
}

export function collected(subscription: Subscription, acks = false): Message[] {
  const messages: Message[] = [];
  subscription.on("message", (message) => {
    messages.push(message);
    if (acks) message.ack();
  });
  return messages;
}

export function texts(messages: readonly Message[]): string[] {
  return messages.map(({ data }) => data.toString());
}
