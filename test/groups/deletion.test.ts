/** What a deleted group leaves behind, while its leader does not know of the deletion yet. */
import { withDefaults } from "@sluice/server";
import { expect, it, onTestFinished } from "vitest";
import { buildApp } from "../../packages/server/src/compose.ts";
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import { parseTopic } from "../../packages/server/src/groups/topic.ts";
import { HOLDS, holdsTable, streamEntity } from "../../packages/server/src/streams/state.ts";
import { quietWorld } from "../support/quiet-world.ts";

it("a hold that the leader moves after the deletion of its group is released", async () => {
  const world = quietWorld(1);
  const engine = openMemory({ world });
  const settings = { memory: true, log: false, internal: { group: { checkMs: 8_000 } } } as const;
  const app = buildApp(withDefaults(settings), world, world.counted(engine));
  app.start();
  onTestFinished(() => app.stop());
  const config = { contentType: "text/plain", retention: { maxMessages: 2 } };
  await app.streams.create("default", "a", { config, closed: false });
  const name = parseTopic("$share/g/a");
  const none = () => {};
  const rest = { subscribed: none, granted: none, revoking: none, revoked: none, acked: none, gap: none };
  const consumer = await app.groups.service.consume("default", { name, member: "m" }, FULL_ACCESS, {
    ...rest,
    messages: (stream, epoch, _, run) => void consumer.ack(stream, epoch, run.at(-1)!.position),
    unsubscribed: none,
  });
  await world.pass(1_000);
  const body = new TextEncoder().encode("m");
  await app.streams.append("default", "a", { body, contentType: "text/plain", close: false });
  await world.pass(1_000);
  const holders = async () => {
    const { rows } = await engine.load(streamEntity("default", "a"), [HOLDS]);
    return Object.keys(rows[0] === undefined ? {} : holdsTable.decode(rows[0]));
  };
  expect(await holders()).toHaveLength(1);
  expect(await app.groups.service.delete("default", name)).toBe("deleted");
  expect(await holders()).toEqual([]);
  await world.pass(5_500);
  // The move of the hold was due before the leader has looked.
  expect(await holders()).toHaveLength(1);
  consumer.disconnect();
  await world.pass(8_000);
  expect(await holders()).toEqual([]);
});

it("a group that is deleted and declared anew begins where the declaration says, also while members stay", async () => {
  const world = quietWorld(1);
  const app = buildApp(withDefaults({ memory: true, log: false }), world, world.counted(openMemory({ world })));
  app.start();
  onTestFinished(() => app.stop());
  await app.streams.create("default", "a", { config: { contentType: "text/plain" }, closed: false });
  const body = new TextEncoder().encode("m");
  await app.streams.append("default", "a", { body, contentType: "text/plain", close: false });
  const name = parseTopic("$share/g/a");
  const none = () => {};
  let messages = 0;
  const rest = { subscribed: none, granted: none, revoking: none, revoked: none, acked: none, gap: none };
  await world.pass(10);
  await app.groups.service.consume("default", { name, member: "m" }, FULL_ACCESS, {
    ...rest,
    messages: (_stream, _epoch, _type, run) => {
      messages += run.length;
    },
    unsubscribed: none,
  });
  await world.pass(3_000);
  expect(messages).toBe(0);
  await app.groups.service.delete("default", name);
  await app.groups.service.put("default", name, { kind: "earliest" }, {});
  await world.pass(10_000);
  expect(messages).toBe(1);
});
