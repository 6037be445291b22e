/** Topics over time: all shards expire as one, and any use of a shard is a use of the topic. */
import { expect, it } from "vitest";
import { appInTime } from "../e2e/app-in-time.ts";
import { describeOnEngines } from "../e2e/server.ts";
import { openStage } from "../e2e/stage.ts";
import { stored, Topic } from "./topic.ts";

describeOnEngines("A sharded topic over time", (engine) => {
  const staged = async (headers: Record<string, string>) => {
    const { url, streams, advance } = await appInTime(engine);
    const topic = new Topic(url, "orders", 3);
    await topic.create(headers);
    return { topic, streams, advance };
  };

  it("expires with all its shards when none of them was used", async () => {
    const { topic, streams, advance } = await staged({ "Stream-TTL": "20" });
    await advance(20_000);
    expect((await topic.head()).status).toBe(200);
    await advance(3_000);
    expect((await topic.head()).status).toBe(404);
    expect(await stored(streams)).toEqual([]);
  });

  it("is extended as a whole by an append to one shard, or a read of one", async () => {
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

  it.each(["the topic", "a shard"])("keeps an append to %s that comes when its expiry has begun", async (to) => {
    const on = await openStage(engine);
    const topic = await new Topic(on.url, "orders", 3).create({ "Stream-TTL": "20" });
    const key = { "Message-Key": "k" };
    const shard = await topic.add("old", key);
    // By then the sweep has visited each shard once, as it does soon after a creation.
    on.pass(11_000);
    await on.sweep();
    on.pass(12_000);
    // The topic is marked as ending, and then the server dies.
    let commits = 0;
    on.trouble.fate = ({ effects }) => (effects.length > 0 && commits++ > 0 ? "refused" : undefined);
    await on.sweep();
    on.trouble.fate = undefined;
    expect(on.reports.splice(0).length).toBe(1);
    await on.restart();
    if (to === "the topic") expect(await topic.add("new", key)).toBe(shard);
    else await topic.api.append(topic.paths[shard]!, '["new"]');
    for (let i = 0; i < 3; i++) {
      on.pass(6_000);
      await on.sweep();
    }
    expect(await topic.closed()).toEqual([false, false, false]);
    expect((await topic.messages()).flat()).toEqual(["old", "new"]);
  });

  it("ends at one moment for the topic and its shards, swept or not", async () => {
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

  it("applies retention by age in every shard", async () => {
    const { topic, advance } = await staged({ "Stream-Max-Age-Seconds": "60" });
    for (let i = 0; i < 3; i++) await topic.add(i);
    await advance(90_000);
    expect((await topic.messages()).flat()).toEqual([]);
    expect(await topic.closed()).toEqual([false, false, false]);
  });
});
