/** Groups over a restart on every store, and over two nodes of one Redis: the leader on one, members on both. */
import { createServer } from "@sluice/server";
import { expect, it, onTestFinished } from "vitest";
import { createdStream, describeOnStores, eventually } from "../e2e/server.ts";
import { temporaryDir } from "../support/disk.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { Consumer } from "./consumer.ts";

const append = (url: string, stream: string, ...values: readonly unknown[]) =>
  fetch(`${url}/v1/stream/${stream}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(values),
  });

async function serverOn(place: object) {
  const server = await createServer({ port: 0, log: false, drainMs: 2_000, ...place });
  onTestFinished(() => server.close());
  return server;
}

describeOnStores("Groups", (engine) => {
  it("go on after a restart where their acknowledgements were confirmed, streams and messages alike", async () => {
    const directory = temporaryDir();
    onTestFinished(directory.remove);
    const place = engine === "redis" ? { redis: sharedRedis() } : { data: directory.dir };
    const first = await serverOn(place);
    const jobs = `restart-${engine}`;
    await createdStream(first, jobs, "application/json");
    const topics = [`$share/restart/${jobs}`, `$queue/restart/${jobs}`];
    const before = await Promise.all(topics.map((_, i) => Consumer.open(first.url, `m${i}`, false)));
    for (const [i, one] of before.entries()) one.subscribe(topics[i]!, { credit: 2 });
    for (const one of before) await one.next("subscribed");
    await append(first.url, jobs, 1, 2, 3);
    for (const one of before) {
      await one.next("message", 2);
      const { offset, epoch, lease } = one.of("message")[0]!;
      one.send({ type: "ack", id: "s", stream: jobs, offset, epoch, lease });
      await one.next("acked");
    }
    await first.close();
    const second = await serverOn(place);
    const after = await Promise.all(
      topics.map((topic, i) => Consumer.open(second.url, `m${i}`).then((one) => one.subscribe(topic))),
    );
    for (const one of after) await eventually(() => expect([...one.payloads].sort()).toEqual([2, 3]));
  });
});

it("members on two nodes of one Redis share streams and messages, and one goes on when the other's node leaves", async () => {
  const place = { redis: sharedRedis() };
  const [one, two] = [await serverOn(place), await serverOn(place)];
  for (const path of ["nodes/1", "nodes/2"]) await createdStream(one, path, "application/json");
  const share = [await Consumer.open(one.url, "a"), await Consumer.open(two.url, "b")];
  const queue = [await Consumer.open(one.url, "a"), await Consumer.open(two.url, "b")];
  for (const member of share) await member.subscribe("$share/nodes/nodes/+", { from: "earliest" }).next("subscribed");
  for (const member of queue) await member.subscribe("$queue/nodes/nodes/+", { from: "earliest" }).next("subscribed");
  await eventually(() => {
    expect(share.map((member) => member.of("granted").length - member.of("revoked").length)).toEqual([1, 1]);
  });
  const look = async ({ url }: { url: string }) => (await fetch(`${url}/v1/groups/nodes?mode=share`)).json();
  await eventually(async () => {
    const [here, there] = [await look(one), await look(two)];
    expect(here).toMatchObject({
      source: "leader",
      members: [{ streams: [expect.any(String)] }, { streams: [expect.any(String)] }],
    });
    expect(there).toEqual(here);
  });
  for (let i = 0; i < 20; i++) await append(i % 2 === 0 ? one.url : two.url, `nodes/${1 + (i % 2)}`, i);
  const all = Array.from({ length: 20 }, (_, i) => i);
  for (const members of [share, queue]) {
    await eventually(() => {
      const payloads = members.flatMap((member) => member.payloads).sort((x, y) => Number(x) - Number(y));
      expect(payloads).toEqual(all);
    });
    for (const member of members) expect(member.payloads.length).toBeGreaterThan(3);
  }
  await one.close();
  await append(two.url, "nodes/1", "more");
  await append(two.url, "nodes/2", "more");
  for (const [, b] of [share, queue]) {
    await eventually(() => expect(b!.payloads.filter((payload) => payload === "more")).toHaveLength(2));
  }
});
