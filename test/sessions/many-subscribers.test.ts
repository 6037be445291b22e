/** The cost of many stored subscribers: a start and a subscribe do as much as for few, and memory holds a bounded number. */
import { type ServerOptions, withDefaults } from "@sluice/server";
import { expect, it } from "vitest";
import { buildApp } from "../../packages/server/src/compose.ts";
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import type { Engine } from "../../packages/server/src/engine/contract.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import type { Published } from "../../packages/server/src/sessions/fanout.ts";
import type { Source } from "../../packages/server/src/sessions/source.ts";
import { manualWorld } from "../support/world.ts";
import { uuid } from "./stage.ts";

const world = manualWorld(1);
const report = (what: string, fault: unknown) => expect.fail(`${what}: ${fault}`);
const build = (engine: Engine, options: ServerOptions = {}) =>
  buildApp(withDefaults({ report, ...options }), world, engine);
type App = ReturnType<typeof build>;

async function subscribe({ sessions }: App, streamId: string, count: number): Promise<void> {
  const join = () => {
    const input = { sessionId: uuid(), streamId, format: "raw", from: undefined } as const;
    return sessions.service.subscribe("default", input, FULL_ACCESS);
  };
  for (const { kind } of await Promise.all(Array.from({ length: count }, join))) expect(kind).toBe("joined");
}

async function createStream({ streams }: App, path: string): Promise<void> {
  await streams.create("default", path, { config: { contentType: "application/json" }, closed: false });
}

async function publish({ sessions }: App, path: string): Promise<Published> {
  const append = { body: new TextEncoder().encode("1"), contentType: "application/json", close: false };
  return (await sessions.service.publish("default", path, append)).copies;
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

it("a start and a subscribe read as much of a stream with three hundred subscribers as of one with ten", async () => {
  const reads: number[] = [];
  for (const sessions of [10, 300]) {
    const engine = openMemory({ world });
    const before = build(engine);
    await createStream(before, "s");
    await subscribe(before, "s", sessions);
    await before.stop();
    const count = counted(engine);
    const app = build(count.engine);
    app.start();
    // A turn for every stream, and some more.
    for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
    await subscribe(app, "s", 1);
    reads.push(count.read);
    expect((await publish(app, "s")).count).toBe(sessions + 1);
    await app.stop();
  }
  expect(reads[1]).toBe(reads[0]);
});

it("beyond a limit the subscribers of idle streams are forgotten, and read again for the next message", async () => {
  const members = 20;
  const app = build(openMemory({ world }), { internal: { fanout: { members } } });
  const { sources } = app.sessions.fanout as unknown as { readonly sources: Map<string, Source> };
  const remembered = () => [...sources.values()].reduce((sum, { roster }) => sum + roster.members.size, 0);
  const paths = ["a", "b", "c", "d"];
  for (const path of paths) {
    await createStream(app, path);
    await subscribe(app, path, 9);
    expect(remembered()).toBeLessThanOrEqual(members);
  }
  for (const path of [...paths, ...paths]) {
    expect(await publish(app, path)).toMatchObject({ count: 9, successes: 9 });
    expect(remembered()).toBeGreaterThanOrEqual(9);
    expect(remembered()).toBeLessThanOrEqual(members);
  }
  await app.stop();
});
