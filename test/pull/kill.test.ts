/** Pull on a server process that is killed: what was confirmed never comes again, what was not always does. */
import { type Message, PubSub } from "@sluice/client/pubsub";
import { expect, it, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import { describeOnDisk, eventually } from "../e2e/server.ts";
import { temporaryDir } from "../support/disk.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { serveInProcess } from "../support/sluice-process.ts";

const MESSAGES = 400;
const QUICK = { minMs: 10, maxMs: 100, giveUpMs: 60_000 };

describeOnDisk("Pull", (engine) => {
  it("never delivers a confirmed message again after a kill, and always the others, to a client that reconnects by itself", async () => {
    const directory = temporaryDir();
    onTestFinished(directory.remove);
    const place = engine === "redis" ? ["--redis", sharedRedis().urls.join(",")] : ["--data", directory.dir];
    const name = `kill-${engine}`;
    const { child, url, ended } = await serveInProcess(place);
    const pubsub = new PubSub({ url, retries: QUICK, WebSocket });
    onTestFinished(() => pubsub.close());
    const topic = await pubsub.createTopic(name);
    const subscription = await topic.subscription(name, { ackDeadline: 600 }).create();
    const all = Array.from({ length: MESSAGES }, (_, i) => String(i));
    await Promise.all(all.map((text) => topic.publishMessage({ data: Buffer.from(text) })));

    const confirmed = new Set<string>();
    const again: string[] = [];
    const errors: unknown[] = [];
    let isKilled = false;
    let count = 0;
    const ack = async (message: Message) => {
      await message.ackWithResponse();
      confirmed.add(message.data.toString());
    };
    subscription.on("message", (message) => {
      if (confirmed.has(message.data.toString())) again.push(message.data.toString());
      // Before the kill every other message is left alone.
      if (isKilled || count++ % 2 === 1) ack(message).catch((error) => errors.push(error));
    });
    subscription.on("error", () => {});
    subscription.open();
    await eventually(() => expect(confirmed.size).toBeGreaterThan(50));
    isKilled = true;
    child.kill("SIGKILL");
    await ended;
    await serveInProcess([...place, "--port", new URL(url).port]);
    await eventually(() => expect(all.filter((text) => !confirmed.has(text))).toEqual([]));
    expect(again).toEqual([]);
    expect(errors).toEqual([]);
    await subscription.close({ mode: "nack" });
  });
});
