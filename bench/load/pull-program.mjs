// A program of the pull scenarios, in a process of its own: publishes, receives and acknowledges messages, and prints how long it
// took. `node pull-program.mjs library MESSAGES` uses `@sluice/server/pubsub` in memory, `... google MESSAGES HOST:PORT` Google's client.
//
// Invariants: the time runs from the first publish to the last acknowledgement. So many publishes are under way as WINDOW says.

import { performance } from "node:perf_hooks";

const MESSAGE = Buffer.alloc(256, "sluice ");
const WINDOW = 1_000;
const IN_FLIGHT = 5_000;
const WARM_UP = 0.2;

const [kind, count, host] = process.argv.slice(2);
const messages = Number(count);

async function library() {
  const { PubSub } = await import("@sluice/server/pubsub");
  const pubsub = new PubSub();
  const topic = await pubsub.createTopic("bench");
  const subscription = await topic.subscription("bench", { flowControl: { maxMessages: IN_FLIGHT } }).create();
  return { topic, subscription, close: () => pubsub.close() };
}

async function google() {
  process.env.PUBSUB_EMULATOR_HOST = host;
  process.env.METADATA_SERVER_DETECTION = "none";
  const { PubSub } = await import("@google-cloud/pubsub");
  const pubsub = new PubSub({ projectId: "bench" });
  await pubsub.createTopic("bench");
  const topic = pubsub.topic("bench", { batching: { maxMessages: WINDOW, maxMilliseconds: 5 } });
  await topic.createSubscription("bench");
  const subscription = pubsub.subscription("bench", { flowControl: { maxMessages: IN_FLIGHT } });
  return { topic, subscription, close: () => pubsub.close() };
}

/** One listener for all rounds, because Google's client closes a subscription that loses its last one. */
function counted(subscription) {
  let received = 0;
  let total = 0;
  let finish;
  subscription.on("message", (message) => {
    message.ack();
    if (++received === total) finish();
  });
  return (more) => {
    total += more;
    return new Promise((resolve) => {
      finish = resolve;
    });
  };
}

async function round(topic, receive, total) {
  const received = receive(total);
  let sent = 0;
  const publish = async () => {
    while (sent < total) {
      sent++;
      await topic.publishMessage({ data: MESSAGE });
    }
  };
  await Promise.all(Array.from({ length: WINDOW }, publish));
  await received;
}

const parts = await (kind === "google" ? google() : library());
const receive = counted(parts.subscription);
parts.subscription.open();
await round(parts.topic, receive, Math.ceil(messages * WARM_UP));
const cpu = process.cpuUsage();
const startedAt = performance.now();
await round(parts.topic, receive, messages);
// Waits for the acknowledgements under way.
await parts.subscription.close();
const seconds = (performance.now() - startedAt) / 1_000;
const { user, system } = process.cpuUsage(cpu);
console.log(`seconds ${seconds}`);
console.log(`processor ${(user + system) / 1e6}`);
await parts.close();
