/** What a server does with stored subscribers while it starts: as much for many of them as for few, and in many short turns. */
import { withDefaults } from "@sluice/server";
import { expect, it } from "vitest";
import { buildApp } from "../../packages/server/src/compose.ts";
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import type { Engine } from "../../packages/server/src/engine/contract.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import { manualWorld } from "../support/world.ts";
import { uuid } from "./stage.ts";

const world = manualWorld(1);
const bytes = (text: string) => new TextEncoder().encode(text);
const build = (engine: Engine) =>
  buildApp(withDefaults({ report: (what, fault) => expect.fail(`${what}: ${fault}`) }), world, engine);

/** A stream with so many subscribers. */
async function filled(sessions: number): Promise<Engine> {
  const engine = openMemory({ world });
  const { streams, sessions: feature, stop } = build(engine);
  await streams.create("default", "s", { config: { contentType: "application/json" }, closed: false });
  const outcomes = await Promise.all(
    Array.from({ length: sessions }, () => {
      const input = { sessionId: uuid(), streamId: "s", format: "raw", from: undefined } as const;
      return feature.service.subscribe("default", input, FULL_ACCESS);
    }),
  );
  for (const { kind } of outcomes) expect(kind).toBe("joined");
  await stop();
  return engine;
}

/** The engine, with a count of the rows and entities that it was asked for. */
function counted(engine: Engine): { readonly engine: Engine; read: number } {
  const count = { engine, read: 0 };
  const counting =
    <A extends unknown[], R>(ask: (...args: A) => R, rowsOf: (result: Awaited<R>) => number) =>
    async (...args: A) => {
      const result = await ask.apply(engine, args);
      count.read += rowsOf(result);
      return result;
    };
  const value = <T>(it: T) => ({ value: it });
  count.engine = Object.create(engine, {
    load: value(counting(engine.load, ({ rows }) => 1 + rows.length)),
    rows: value(counting(engine.rows, (rows) => 1 + rows.length)),
    read: value(counting(engine.read, ({ messages }) => 1 + messages.length)),
  });
  return count;
}

it("a start reads as much of a stream with a thousand subscribers as of one with ten", async () => {
  const reads: number[] = [];
  for (const sessions of [10, 1_000]) {
    const count = counted(await filled(sessions));
    const app = build(count.engine);
    app.start();
    // A turn for every stream, and some more.
    for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
    reads.push(count.read);
    const { copies } = await app.sessions.service.publish("default", "s", {
      body: bytes("1"),
      contentType: "application/json",
      close: false,
    });
    expect(copies.count).toBe(sessions);
    await app.stop();
  }
  expect(reads[1]).toBe(reads[0]);
});
