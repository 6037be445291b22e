/**
 * What happens when the server dies, or loses the engine, between two steps of a topic: after every single commit, in both ways,
 * with nothing done (`refused`) and with its answer lost (`lost`). The next request or sweep finds the topic whole or gone. The
 * faults are put between the server and its engine, so one engine shows what there is to see; `storm.test.ts` runs on all.
 */
import { describe, expect, it } from "vitest";
import { utf8 } from "../../packages/server/src/core/bytes.ts";
import { Keepers } from "../../packages/server/src/engine/keeper.ts";
import { STREAM_LIMITS } from "../../packages/server/src/streams/defaults.ts";
import { makeShardRule } from "../../packages/server/src/streams/shards.ts";
import { META, streamEntity } from "../../packages/server/src/streams/state.ts";
import { type Fault, openStage, type Stage } from "../e2e/stage.ts";
import type { Answer } from "../sessions/api.ts";
import { stored, Topic } from "./topic.ts";

const SHARDS = 3;
/** The topic, its shards, and the topic once more. */
const STEPS = SHARDS + 2;
const CHECK_MS = 10_000;
const FAULTS: readonly Fault[] = ["refused", "lost"];

function fateFrom(at: number, fault: Fault): NonNullable<Stage["trouble"]["fate"]> {
  let done = 0;
  return ({ effects }) => {
    if (effects.length === 0) return undefined;
    const step = done++;
    return step < at ? undefined : step === at ? fault : "refused";
  };
}

/** Runs the work while every commit from the given one on fails, and restarts the server. */
async function cut(on: Stage, at: number, fault: Fault, work: () => Promise<Answer>): Promise<Answer> {
  on.trouble.fate = fateFrom(at, fault);
  const answer = await work();
  on.trouble.fate = undefined;
  await on.restart();
  return answer;
}

const everyStep = (steps: number) =>
  Array.from({ length: steps }, (_, at) => FAULTS.map((fault) => ({ at, fault }))).flat();

async function settle(on: Stage): Promise<void> {
  for (let i = 0; i < 3; i++) {
    on.pass(CHECK_MS + 500);
    await on.sweep();
  }
}

describe("A topic that is cut short", () => {
  const staged = async () => {
    const on = await openStage("memory");
    return { on, topic: new Topic(on.url, "orders", SHARDS) };
  };
  const whole = (topic: Topic) => [topic.path, ...topic.paths];

  it.each(everyStep(STEPS))(
    "while it is made, at step $at ($fault): a repeated PUT makes it whole",
    async ({ at, fault }) => {
      const { on, topic } = await staged();
      expect((await cut(on, at, fault, () => topic.put())).status).toBe(503);
      const isNew = at === 0 && fault === "refused";
      expect((await topic.put()).status).toBe(isNew ? 201 : 200);
      expect(await topic.closed()).toEqual([false, false, false]);
      await settle(on);
      expect(await stored(on.app.streams)).toEqual(whole(topic));
      expect(await on.tracked()).toEqual([]);
    },
  );

  it.each(everyStep(STEPS))(
    "while it is made, at step $at ($fault): an append makes it whole",
    async ({ at, fault }) => {
      const { on, topic } = await staged();
      await cut(on, at, fault, () => topic.put());
      const answer = await topic.post("x", { "Message-Key": "k" });
      expect(answer.status).toBe(at === 0 && fault === "refused" ? 404 : 204);
      if (answer.status === 404) return;
      expect(await topic.closed()).toEqual([false, false, false]);
      expect((await topic.messages()).flat()).toEqual(["x"]);
    },
  );

  it.each(everyStep(STEPS))(
    "while it is made, at step $at ($fault): the sweep makes it whole",
    async ({ at, fault }) => {
      const { on, topic } = await staged();
      await cut(on, at, fault, () => topic.put());
      await settle(on);
      expect(await stored(on.app.streams)).toEqual(at === 0 && fault === "refused" ? [] : whole(topic));
      expect(await on.tracked()).toEqual([]);
    },
  );

  it.each(everyStep(STEPS))(
    "while it is made, at step $at ($fault): deleting it leaves nothing",
    async ({ at, fault }) => {
      const { on, topic } = await staged();
      await cut(on, at, fault, () => topic.put());
      expect((await topic.delete()).status).toBe(at === 0 && fault === "refused" ? 404 : 204);
      expect(await stored(on.app.streams)).toEqual([]);
      await settle(on);
      expect(await on.tracked()).toEqual([]);
    },
  );

  it.each(everyStep(STEPS))(
    "while it is deleted, at step $at ($fault): the sweep leaves nothing of it",
    async ({ at, fault }) => {
      const { on, topic } = await staged();
      await topic.create();
      await topic.add("x");
      await settle(on);
      expect((await cut(on, at, fault, () => topic.delete())).status).toBe(503);
      const stands = at === 0 && fault === "refused";
      // From its first step on no request finds it.
      expect((await topic.head()).status).toBe(stands ? 200 : 404);
      expect((await topic.post("y")).status).toBe(stands ? 204 : 404);
      await settle(on);
      expect(await stored(on.app.streams)).toEqual(stands ? whole(topic) : []);
      expect(await on.tracked()).toEqual([]);
    },
  );

  it.each(everyStep(STEPS))(
    "while it is deleted, at step $at ($fault): a new topic of its name is empty",
    async ({ at, fault }) => {
      const { on, topic } = await staged();
      await topic.create();
      for (let i = 0; i < SHARDS; i++) await topic.add("old");
      await cut(on, at, fault, () => topic.delete());
      const stands = at === 0 && fault === "refused";
      const bigger = new Topic(on.url, "orders", SHARDS + 1);
      expect((await bigger.put()).status).toBe(stands ? 409 : 201);
      if (stands) return;
      expect((await bigger.messages()).flat()).toEqual([]);
      await settle(on);
      expect(await stored(on.app.streams)).toEqual(whole(bigger));
      expect(await bigger.add("new", { "Message-Key": "k" })).toBeGreaterThanOrEqual(0);
      expect((await bigger.messages()).flat()).toEqual(["new"]);
    },
  );

  it.each(everyStep(STEPS))(
    "while it is closed, at step $at ($fault): all of its shards are closed, or none",
    async ({ at, fault }) => {
      const { on, topic } = await staged();
      await topic.create();
      expect((await cut(on, at, fault, () => topic.close())).status).toBe(503);
      const isOpen = at === 0 && fault === "refused";
      expect((await topic.post("x")).status).toBe(isOpen ? 204 : 409);
      expect(await topic.closed()).toEqual(Array(SHARDS).fill(!isOpen));
      expect((await topic.close()).status).toBe(204);
      expect(await topic.closed()).toEqual([true, true, true]);
    },
  );

  it.each(everyStep(STEPS))(
    "while it is closed, at step $at ($fault): the sweep closes the rest",
    async ({ at, fault }) => {
      const { on, topic } = await staged();
      await topic.create();
      await cut(on, at, fault, () => topic.close());
      await settle(on);
      const isOpen = at === 0 && fault === "refused";
      expect(await topic.closed()).toEqual(Array(SHARDS).fill(!isOpen));
      expect(await on.tracked()).toEqual([]);
    },
  );

  it("while it ends by its TTL: the rest goes with the next sweep, or when its name is used again", async () => {
    for (const { at, fault } of everyStep(STEPS)) {
      const { on, topic } = await staged();
      await topic.create({ "Stream-TTL": "60" });
      await settle(on);
      on.pass(70_000);
      on.trouble.fate = fateFrom(at, fault);
      await on.sweep();
      on.trouble.fate = undefined;
      on.reports.splice(0);
      if (at % 2 === 0) await settle(on);
      else await topic.create({ "Stream-TTL": "60" });
      const left = at % 2 === 0 ? [] : whole(topic);
      expect(await stored(on.app.streams), `${at} ${fault}`).toEqual(left);
    }
  });
});

describe("A shard that is left over", () => {
  /** As a slow node makes one: it saw a topic that has gone by the time its commit comes. */
  async function leftOver() {
    const on = await openStage("memory");
    const topic = new Topic(on.url, "orders", SHARDS);
    const keepers = new Keepers(on.engine, (task) => setImmediate(task));
    const make = { topicId: "gone", config: { contentType: "application/json", shards: SHARDS }, closed: false };
    const shard = streamEntity("default", "orders/$shard/1");
    await keepers.submit(shard, [META], (view, now) => makeShardRule(view, now, make, STREAM_LIMITS));
    await on.app.streams.append("default", shard.id, {
      payloads: [utf8("1")],
      contentType: "application/json",
      close: false,
    });
    return { on, topic };
  }

  it("is removed by the sweep", async () => {
    const { on } = await leftOver();
    expect(await stored(on.app.streams)).toEqual(["orders/$shard/1"]);
    on.pass(CHECK_MS - 1_000);
    await on.sweep();
    expect((await stored(on.app.streams)).length).toBe(1);
    await settle(on);
    expect(await stored(on.app.streams)).toEqual([]);
    expect(await on.tracked()).toEqual([]);
  });

  it("makes room for a new topic of its name, which does not adopt it", async () => {
    const { on, topic } = await leftOver();
    await topic.create();
    expect(await topic.messages()).toEqual([[], [], []]);
    await settle(on);
    expect(await stored(on.app.streams)).toEqual([topic.path, ...topic.paths]);
  });

  it("is made anew, where a topic has lost one, by the append that needs it", async () => {
    const on = await openStage("memory");
    const topic = await new Topic(on.url, "orders", SHARDS).create();
    const shard = await topic.add("lost", { "Message-Key": "k" });
    // As a failover loses it.
    expect((await on.app.streams.deleteAt("default", topic.paths[shard]!)).kind).toBe("deleted");
    expect(await topic.add("x", { "Message-Key": "k" })).toBe(shard);
    expect((await topic.messages())[shard]).toEqual(["x"]);
  });
});
