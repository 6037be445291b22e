/** Pull in a process that is killed: what was confirmed never comes again, what was not always does. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { type Message, PubSub } from "@sluice/client/pubsub";
import { PubSub as LocalPubSub } from "@sluice/server/pubsub";
import { expect, it, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import { describeOnDisk, eventually } from "../e2e/server.ts";
import { temporaryDir } from "../support/disk.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { serveInProcess } from "../support/sluice-process.ts";
import { collected, texts } from "./pubsub-world.ts";

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

it("the library on a directory never delivers a confirmed message again after a kill, and always the others", async () => {
  const { dir, remove } = temporaryDir();
  onTestFinished(remove);
  const script = fileURLToPath(new URL("./library-child.mjs", import.meta.url));
  const child = spawn(process.execPath, [script, dir, String(MESSAGES)], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  let said = "";
  const told = (word: string) => [...said.matchAll(new RegExp(`^${word} (\\d+)$`, "gm"))].map(([, text]) => text!);
  child.stdout.on("data", (chunk) => {
    said += chunk;
    // In the middle of an acknowledgement.
    if (told("done").length > 50) child.kill("SIGKILL");
  });
  await once(child, "close");

  const pubsub = new LocalPubSub({ data: dir });
  onTestFinished(() => pubsub.close());
  const subscription = pubsub.subscription("s");
  const received = collected(subscription, true);
  subscription.open();
  // An acknowledgement whose answer the kill has taken may be stored or not.
  const tried = new Set(told("tried"));
  const owed = Array.from({ length: MESSAGES }, (_, i) => String(i)).filter((text) => !tried.has(text));
  await eventually(() => expect(texts(received)).toEqual(expect.arrayContaining(owed)));
  const confirmed = new Set(told("done"));
  expect(texts(received).filter((text) => confirmed.has(text))).toEqual([]);
});
