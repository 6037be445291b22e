/** Google's client on a server process that is killed: what was confirmed never comes again, what was not always does. */
import type { Message, PubSub } from "@google-cloud/pubsub";
import { describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../e2e/server.ts";
import { temporaryDir } from "../support/disk.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { serveInProcess } from "../support/sluice-process.ts";
import { kinds, publish, pubsubAt, receive } from "./google.ts";

const MESSAGES = 200;

describe.each(kinds([["6.3.0", "disk"]], ["disk", "redis"]))("Google's client %s (%s)", (version, engine) => {
  it("gets no confirmed message again after a kill, and all others", async () => {
    const directory = temporaryDir();
    onTestFinished(directory.remove);
    const place = engine === "redis" ? ["--redis", sharedRedis().urls.join(",")] : ["--data", directory.dir];
    const serve = async () => {
      const running = await serveInProcess([...place, "--grpc-port", "0"]);
      const port = await eventuallyPort(() => running.said.stderr);
      const pubsub = pubsubAt(version, port);
      onTestFinished(() => pubsub.close());
      return { ...running, pubsub };
    };
    const before = await serve();
    const name = `kill-grpc-${version}-${engine}`;
    const [topic] = await before.pubsub.createTopic(name);
    await topic.createSubscription(name, { enableExactlyOnceDelivery: true, ackDeadlineSeconds: 600 });
    const all = Array.from({ length: MESSAGES }, (_, i) => String(i));
    await publish(before.pubsub, name, ...all);
    const first = acknowledging(before.pubsub, name, (text) => Number(text) % 2 === 0);
    await eventually(() => expect(first.confirmed.size).toBeGreaterThan(50));
    before.child.kill("SIGKILL");
    await before.ended;
    const confirmed = new Set(first.confirmed);

    const { pubsub } = await serve();
    const second = acknowledging(pubsub, name, () => true);
    // An acknowledgement whose answer the kill has taken may be stored or not.
    const owed = all.filter((text) => !first.tried.has(text));
    await eventually(() => expect(owed.filter((text) => !second.confirmed.has(text))).toEqual([]));
    expect([...second.tried].filter((text) => confirmed.has(text))).toEqual([]);
  });
});

/** Acknowledges some messages, and notes which of them the server has confirmed. */
function acknowledging(pubsub: PubSub, name: string, isAcked: (text: string) => boolean) {
  const acks = { tried: new Set<string>(), confirmed: new Set<string>() };
  receive(pubsub, name, (message: Message) => {
    const text = message.data.toString();
    if (!isAcked(text)) return;
    acks.tried.add(text);
    message.ackWithResponse().then(
      () => acks.confirmed.add(text),
      () => {},
    );
  });
  return acks;
}

async function eventuallyPort(said: () => string): Promise<number> {
  let port: number | undefined;
  await eventually(() => {
    port = Number(/"grpcPort":(\d+)/.exec(said())?.[1]);
    expect(port).toBeGreaterThan(0);
  });
  return port!;
}
