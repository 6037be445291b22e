/** What time does to topics: they end as one, and any use of a shard is a use of the topic. */
import { expect, it } from "vitest";
import { appInTime } from "../e2e/app-in-time.ts";
import { describeOnEngines } from "../e2e/server.ts";
import { openStage } from "../e2e/stage.ts";
import { stored, Topic } from "./topic.ts";

describeOnEngines("The time of a sharded topic", (engine) => {
  const staged = async (headers: Record<string, string>) => {
    const { url, streams, advance } = await appInTime(engine);
    const topic = new Topic(url, "orders", 3);
    await topic.create(headers);
    return { topic, streams, advance };
  };

  it("a TTL ends it with all its shards when none of them was used", async () => {
    const { topic, streams, advance } = await staged({ "Stream-TTL": "20" });
    await advance(20_000);
    expect((await topic.head()).status).toBe(200);
    await advance(3_000);
    expect((await topic.head()).status).toBe(404);
    expect(await stored(streams)).toEqual([]);
  });

  it("an append to one shard, or a read of one, prolongs all", async () => {
    const { topic, streams, advance } = await staged({ "Stream-TTL": "20" });
    const shard = await topic.add("x", { "Message-Key": "k" });
    const other = topic.paths[(shard + 1) % 3]!;
    for (let i = 0; i < 4; i++) {
      await advance(15_000);
      if (i % 2 === 0) await topic.add("x", { "Message-Key": "k" });
      else expect((await topic.get("?offset=-1", other)).status).toBe(200);
    }
    expect(await topic.closed()).toEqual([false, false, false]);
    expect((await topic.messages()).flat()).toEqual(["x", "x", "x"]);
    await advance(25_000);
    expect(await stored(streams)).toEqual([]);
    expect((await topic.post("y")).status).toBe(404);
    await topic.create({ "Stream-TTL": "20" });
    expect((await topic.messages()).flat()).toEqual([]);
  });

  it("an expiry ends the topic and its shards at one moment, swept or not", async () => {
    const { url, app, pass, now, sweep } = await openStage(engine);
    const expires = new Date(now() + 20_000).toISOString();
    const topic = await new Topic(url, "orders", 3).create({ "Stream-Expires-At": expires });
    await topic.add("x");
    pass(19_999);
    expect(await topic.closed()).toEqual([false, false, false]);
    pass(1);
    expect(await topic.closed()).toEqual([undefined, undefined, undefined]);
    expect((await topic.head()).status).toBe(404);
    expect((await topic.post("y")).status).toBe(404);
    await sweep();
    expect(await stored(app.streams)).toEqual([]);
  });

  it("retention by age works in every shard", async () => {
    const { topic, advance } = await staged({ "Stream-Max-Age-Seconds": "60" });
    for (let i = 0; i < 3; i++) await topic.add(i);
    await advance(90_000);
    expect((await topic.messages()).flat()).toEqual([]);
    expect(await topic.closed()).toEqual([false, false, false]);
  });
});
