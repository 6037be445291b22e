/**
 * A program that uses the library on a directory until it is killed: it publishes messages and acknowledges every other one. It
 * writes every line out before its next step, so the parent knows what was confirmed.
 *
 *   tried <text>   an acknowledgement is under way
 *   done <text>    it was confirmed
 */
import { writeSync } from "node:fs";
import { PubSub } from "@sluice/server/pubsub";

const [data, count] = process.argv.slice(2);
const say = (line) => writeSync(1, `${line}\n`);

const topic = await new PubSub({ data }).createTopic("t");
const subscription = await topic.subscription("s", { ackDeadline: 600 }).create();
const texts = Array.from({ length: Number(count) }, (_, i) => String(i));
await Promise.all(texts.map((text) => topic.publishMessage({ data: Buffer.from(text) })));
for await (const message of subscription) {
  const text = message.data.toString();
  if (Number(text) % 2 === 0) continue;
  say(`tried ${text}`);
  await message.ackWithResponse();
  say(`done ${text}`);
}
