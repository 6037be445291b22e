/** Groups on a store whose clock jumps: the time of a member runs by the monotonic clock of its leader. */
import { withDefaults } from "@sluice/server";
import { expect, it, onTestFinished } from "vitest";
import { buildApp } from "../../packages/server/src/compose.ts";
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import { GROUP_TIMERS } from "../../packages/server/src/groups/defaults.ts";
import { parseTopic } from "../../packages/server/src/groups/topic.ts";
import { quietWorld } from "../support/quiet-world.ts";

it("no two members have a stream at the same time when the clock of the store jumps ahead", async () => {
  const world = quietWorld(1);
  const memory = openMemory({ world });
  // As after a failover of Redis to a master whose clock is ahead.
  let aheadMs = 0;
  const engine = Object.create(memory, { now: { configurable: true, value: () => memory.now() + aheadMs } });
  const app = buildApp(withDefaults({ memory: true, log: false }), world, world.counted(engine));
  app.start();
  onTestFinished(() => app.stop());
  for (const path of ["a/1", "a/2"])
    await app.streams.create("default", path, { config: { contentType: "application/json" }, closed: false });
  const holders = new Map<string, Set<string>>();
  const shared: string[] = [];
  const join = async (member: string) => {
    const none = () => {};
    const granted = (stream: string) => {
      const all = holders.get(stream) ?? new Set();
      holders.set(stream, all.add(member));
      if (all.size > 1) shared.push(stream);
    };
    const revoked = (stream: string) => void holders.get(stream)?.delete(member);
    const rest = { subscribed: none, revoking: none, messages: none, acked: none, gap: none, unsubscribed: none };
    const asked = { name: parseTopic("$share/g/a/+"), member };
    await app.groups.service.consume("default", asked, FULL_ACCESS, { granted, revoked, ...rest });
  };
  await join("one");
  // So that the two do not ping at the same moment.
  await world.pass(GROUP_TIMERS.pingMs / 2);
  await join("two");
  await world.pass(3_000);
  expect([...holders.values()].flatMap((members) => [...members]).sort()).toEqual(["one", "two"]);
  aheadMs = 60_000;
  await world.pass(3_000);
  expect(shared).toEqual([]);
});
