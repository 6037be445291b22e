/**
 * Many members at once, in one server without sockets: fifty groups of twenty members that all come in one moment, and one more
 * member among a hundred. Shares must be even, and few streams may move.
 */
import { expect, it, onTestFinished } from "vitest";
import { buildApp } from "../../packages/server/src/compose.ts";
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import type { ConsumerEvents } from "../../packages/server/src/groups/consumer.ts";
import { groupName } from "../../packages/server/src/groups/topic.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { withDefaults } from "../../packages/server/src/server-options.ts";
import { eventually } from "../e2e/server.ts";

const PROJECT = "p";

function open() {
  const world = realWorld();
  const engine = openMemory({ world });
  const app = buildApp(withDefaults({ memory: true, log: false }), world, engine);
  app.start();
  onTestFinished(() => app.stop());
  const create = async (count: number) => {
    const config = { contentType: "text/plain" };
    for (let i = 0; i < count; i++) await app.streams.create(PROJECT, `s/${i}`, { config, closed: false });
  };
  /** Returns the streams that the member holds now, and counts what it was granted. */
  const join = async (group: string, member: string, counts: { granted: number }) => {
    const held = new Set<string>();
    const none = () => {};
    const events: ConsumerEvents = {
      subscribed: none,
      granted: (stream) => {
        held.add(stream);
        counts.granted++;
      },
      revoking: none,
      revoked: (stream) => void held.delete(stream),
      messages: none,
      acked: none,
      gap: none,
      unsubscribed: none,
    };
    const name = groupName("share", group, "s/#");
    await app.groups.service.consume(PROJECT, { name, member }, FULL_ACCESS, events);
    return held;
  };
  return { create, join };
}

it("fifty groups of twenty members that come at once share their streams evenly, each stream with one member", async () => {
  const { create, join } = open();
  await create(40);
  const counts = { granted: 0 };
  const groups = await Promise.all(
    Array.from({ length: 50 }, (_, g) =>
      Promise.all(Array.from({ length: 20 }, (_, m) => join(`g${g}`, `m${m}`, counts))),
    ),
  );
  await eventually(() => {
    for (const members of groups) {
      expect(members.map(({ size }) => size)).toEqual(members.map(() => 2));
      expect(new Set(members.flatMap((held) => [...held])).size).toBe(40);
    }
  }, 60_000);
});

it("one more member among a hundred gets its share, and at most twice as many streams move", async () => {
  const { create, join } = open();
  await create(1_000);
  const counts = { granted: 0 };
  const names = Array.from({ length: 100 }, (_, m) => `m${m}`);
  const members = await Promise.all(names.map((name) => join("g", name, counts)));
  await eventually(() => expect(members.every(({ size }) => size === 10)).toBe(true), 30_000);
  const before = counts.granted;
  const late = await join("g", "late", counts);
  // A thousand streams are nine each for a hundred and one, and 91 of them have one more.
  await eventually(() => {
    expect(late.size).toBe(9);
    expect([...members, late].reduce((sum, { size }) => sum + size, 0)).toBe(1_000);
  }, 30_000);
  expect(counts.granted - before).toBeLessThanOrEqual(2 * 9);
});
