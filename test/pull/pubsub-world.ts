/**
 * The library on a clock that the test moves, so that the seed's waits take no time: over a store in process, and over the wire. The
 * tests of the library use it.
 *
 * Invariants: the wire carries the frames and bodies of a real server; only the network between them is missing.
 */
import { PubSub as WirePubSub } from "@sluice/client/pubsub";
import { type Message, PubSub, type Subscription } from "@sluice/server/pubsub";
import { onTestFinished } from "vitest";
import { type ManualWorld, manualWorld } from "../support/world.ts";
import { PullLink } from "./pull-link.ts";
import { settled } from "./pull-world.ts";

const STEP_MS = 10;

export type Kind = "in process" | "over the wire";
export const KINDS: readonly Kind[] = ["in process", "over the wire"];

export async function pubSubWorld(kind: Kind) {
  const world = manualWorld(1);
  const pubsub = kind === "in process" ? new PubSub({}, world) : await wired(world);
  onTestFinished(() => pubsub.close());
  const topic = await pubsub.topic("my-topic").create();
  return {
    world,
    pubsub,
    topic,
    /** Passes time, and lets everything that follows happen. */
    async sleep(ms: number): Promise<void> {
      for (let left = ms; left > 0; left -= STEP_MS) {
        world.advance(Math.min(left, STEP_MS));
        await settled(4);
      }
      await settled();
    },
    /** As a listener waits. */
    delay: (ms: number) => new Promise<void>((resolve) => void world.after(ms, resolve)),
    publish: async (...texts: string[]) => {
      for (const text of texts) await topic.publishMessage({ data: Buffer.from(text) });
    },
  };
}

async function wired(world: ManualWorld): Promise<WirePubSub> {
  const link = await PullLink.open(world);
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
