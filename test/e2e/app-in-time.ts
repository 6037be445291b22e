/**
 * The server on a clock that the test moves, with its parts at hand: what `createServer` builds, over a real HTTP door, but in
 * a world that stands still. For what time alone does, and for what has no route, such as holds.
 */
import { withDefaults } from "@sluice/server";
import { expect, onTestFinished } from "vitest";
import { buildApp } from "../../packages/server/src/compose.ts";
import { HttpDoor } from "../../packages/server/src/doors/http/node-adapter.ts";
import { route } from "../../packages/server/src/doors/http/router.ts";
import type { Engine } from "../../packages/server/src/engine/contract.ts";
import { openDisk } from "../../packages/server/src/engine/disk/open.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import { openRedis } from "../../packages/server/src/engine/redis/open.ts";
import { Sweeper } from "../../packages/server/src/engine/sweeper.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import type { Streams } from "../../packages/server/src/streams/service.ts";
import { STREAM } from "../../packages/server/src/streams/state.ts";
import { temporaryDir } from "../support/disk.ts";
import { PATIENCE, sharedRedis } from "../support/shared-redis.ts";
import { type ManualWorld, manualWorld } from "../support/world.ts";
import type { EngineName } from "./server.ts";

export interface AppInTime {
  readonly url: string;
  readonly app: ReturnType<typeof buildApp>;
  readonly streams: Streams;
  now(): number;
  /** Moves the clock in steps of half a second, as often as the server sweeps, and sweeps after each. */
  advance(ms: number): Promise<void>;
}

const SWEEP_EVERY_MS = 500;

async function openEngine(name: EngineName, dir: string | undefined, world: ManualWorld): Promise<Engine> {
  if (name === "redis")
    return movable(await openRedis({ ...sharedRedis(), limits: PATIENCE, world: realWorld() }), world);
  return dir === undefined ? openMemory({ world }) : openDisk({ dir, world });
}

/** The time of a cluster cannot be moved, but what the engine says that it is can. */
function movable(engine: Engine, world: ManualWorld): Engine {
  return Object.create(engine, { now: { value: () => world.now() } });
}

export async function appInTime(engineName: EngineName): Promise<AppInTime> {
  const world = manualWorld(1, Date.now());
  const directory = engineName === "disk" ? temporaryDir() : undefined;
  const engine = await openEngine(engineName, directory?.dir, world);
  const reports: string[] = [];
  const report = (what: string, fault: unknown) => void reports.push(`${what}: ${fault}`);
  const app = buildApp(withDefaults({ report }), world, engine);
  const handle = (request: Parameters<typeof route>[1]) => route(app.features, request);
  const door = await HttpDoor.open({
    host: "127.0.0.1",
    port: 0,
    requestMs: 30_000,
    handle,
    report: (f) => report("", f),
  });
  // Not started, for it would sweep whenever its own round is done; this one sweeps when the test says so.
  const sweeper = new Sweeper(engine, world, (e, fault) => report(`sweeping ${e?.key}`, fault));
  sweeper.handle(STREAM, (e) => app.streams.sweep(e.project, e.id));
  onTestFinished(async () => {
    app.drain();
    await door.close();
    await sweeper.stop();
    await app.stop();
    await engine.close();
    directory?.remove();
    expect(reports).toEqual([]);
  });
  const advance = async (ms: number) => {
    for (let left = ms; left > 0; left -= SWEEP_EVERY_MS) {
      world.advance(Math.min(left, SWEEP_EVERY_MS));
      await sweeper.sweepAll();
    }
  };
  return { url: `http://127.0.0.1:${door.port}`, app, streams: app.streams, now: () => world.now(), advance };
}
