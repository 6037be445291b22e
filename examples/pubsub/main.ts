/**
 * `npm run example pubsub`: Google's own client for Cloud Pub/Sub, unmodified, against Sluice. A shop publishes orders; two workers
 * share them. An order that fails comes again, and after five attempts it goes to the dead-letter topic.
 */
import { type Message, PubSub } from "@google-cloud/pubsub";
import { createServer } from "@sluice/server";

const ORDERS = 12;
const PROJECT = "shop";

const server = await createServer({ port: 0, grpcPort: 0, memory: true, log: false });
// A program of its own needs only these two variables.
process.env.PUBSUB_EMULATOR_HOST = `127.0.0.1:${server.grpcPort}`;
process.env.GOOGLE_CLOUD_PROJECT = PROJECT;
process.env.METADATA_SERVER_DETECTION = "none";

const pubsub = new PubSub({ projectId: PROJECT });
const [orders] = await pubsub.createTopic("orders");
const [failed] = await pubsub.createTopic("failed-orders");
await failed.createSubscription("clerk");
await orders.createSubscription("workers", {
  enableMessageOrdering: true,
  deadLetterPolicy: { deadLetterTopic: failed.name, maxDeliveryAttempts: 5 },
});

// A message may come twice, for instance after one of its key has failed.
const shipped = new Set<number>();
const clerk = pubsub.subscription("clerk");
const isOver = new Promise<void>((resolve) => {
  clerk.on("message", (message: Message) => {
    console.log(`clerk     looks at order ${message.data}, which failed`);
    message.ack();
    resolve();
  });
});

const workers = ["worker 1", "worker 2"].map((name) => {
  const worker = pubsub.subscription("workers", { flowControl: { maxMessages: 3 } });
  return worker.on("message", (message: Message) => {
    const order = Number(message.data);
    if (order === 7) {
      console.log(`${name}  fails at order ${order}, attempt ${message.deliveryAttempt}`);
      message.nack();
      return;
    }
    console.log(`${name}  ships order ${order} of ${message.orderingKey}`);
    shipped.add(order);
    message.ack();
  });
});

const shop = pubsub.topic("orders", { messageOrdering: true });
for (let order = 1; order <= ORDERS; order++) {
  await shop.publishMessage({ data: Buffer.from(String(order)), orderingKey: `customer-${order % 4}` });
}

await isOver;
while (shipped.size < ORDERS - 1) await new Promise((resolve) => setTimeout(resolve, 50));
console.log(`${shipped.size} orders shipped, 1 put aside`);
await Promise.all([clerk, ...workers].map((subscription) => subscription.close()));
await pubsub.close();
await server.close();
