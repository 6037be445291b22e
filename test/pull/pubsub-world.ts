/** A `PubSub` in memory whose clock the test moves, so that the seed's waits take no time. The tests of the library use it. */
import { type Message, PubSub, type Subscription } from "@sluice/server/pubsub";
import { onTestFinished } from "vitest";
import { manualWorld } from "../support/world.ts";
import { settled } from "./pull-world.ts";

const STEP_MS = 10;

export async function pubSubWorld() {
  const world = manualWorld(1);
  const pubsub = new PubSub({}, world);
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
