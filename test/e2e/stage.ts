/**
 * The server on a clock that the test moves, over a real HTTP door, with an engine whose steps the test can make fail and whose
 * calls it can see. Sweeps when the test says so. Suites put their own calls on top of it.
 */
import { type ServerOptions, withDefaults } from "@sluice/server";
import { expect, onTestFinished } from "vitest";
import { buildApp, type Outside } from "../../packages/server/src/compose.ts";
import { HttpDoor } from "../../packages/server/src/doors/http/http-door.ts";
import { type Effect, type Engine, EngineError, type Entity } from "../../packages/server/src/engine/contract.ts";
import { openWith } from "../../packages/server/src/engine/disk/open.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import { openRedis } from "../../packages/server/src/engine/redis/open.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { answerHere } from "../support/ask.ts";
import { inlinePorts, temporaryDir } from "../support/disk.ts";
import { PATIENCE, sharedRedis } from "../support/shared-redis.ts";
import { sharedTopology } from "../support/shared-topology.ts";
import { manualWorld } from "../support/world.ts";
import type { EngineName } from "./server.ts";

/** `refused`: nothing was done. `lost`: it was done, and the word of it did not come back. */
export type Fault = "refused" | "lost";

interface Commit {
  readonly entity: Entity;
  readonly effects: readonly Effect[];
}

/** What the engine was asked for, and what is to go wrong next. */
export class Trouble {
  readonly calls: string[] = [];
  readonly committed: Commit[] = [];
  hit: Fault | undefined;
  load: Fault | undefined;
  commit: Fault | undefined;
  /** Only commits with such an effect are in trouble; undefined: all are. */
  effect: Effect["op"] | undefined;
  /** Decides for a commit by itself, where it is given. */
  fate: ((commit: Commit) => Fault | undefined) | undefined;
  read: Fault | undefined;
  /** By kind of entity, the most commits that there were at once. */
  readonly atOnce = new Map<string, number>();
  private readonly underWay = new Map<string, number>();
  /** Questions to the index that are not answered yet, and the most that there were at once. */
  asking = 0;
  askedAtOnce = 0;

  /** The kinds of calls since the last time this was asked. */
  taken(): string[] {
    return this.calls.splice(0);
  }

  /** Notes a commit, until what is returned is called. */
  note(commit: Commit): () => void {
    this.committed.push(commit);
    const { kind } = commit.entity;
    const now = (this.underWay.get(kind) ?? 0) + 1;
    this.underWay.set(kind, now);
    this.atOnce.set(kind, Math.max(this.atOnce.get(kind) ?? 0, now));
    return () => void this.underWay.set(kind, this.underWay.get(kind)! - 1);
  }

  faultOf(commit: Commit): Fault | undefined {
    if (this.fate !== undefined) return this.fate(commit);
    const isMeant = this.effect === undefined || commit.effects.some(({ op }) => op === this.effect);
    return isMeant ? this.commit : undefined;
  }
}

const gone = () => new EngineError("unavailable", "the engine cannot be reached, says the test");

/** The engine with the trouble in between. The time of Redis cannot be moved, but what the engine says that it is can. */
function troubled(engine: Engine, trouble: Trouble, now: () => number): Engine {
  const around = async <T>(call: string, fault: Fault | undefined, work: () => T | Promise<T>) => {
    trouble.calls.push(call);
    if (fault === "refused") throw gone();
    const result = await work();
    if (fault === "lost") throw gone();
    return result;
  };
  const value = <T>(it: T) => ({ value: it });
  return Object.create(engine, {
    now: value(now),
    hit: value((...args: Parameters<Engine["hit"]>) => around("hit", trouble.hit, () => engine.hit(...args))),
    read: value((...args: Parameters<Engine["read"]>) => around("read", trouble.read, () => engine.read(...args))),
    load: value((...args: Parameters<Engine["load"]>) => {
      // Most loads are plain values, and stay so unless they are to fail.
      return trouble.load === undefined
        ? engine.load(...args)
        : around("load", trouble.load, () => engine.load(...args));
    }),
    commit: value((...args: Parameters<Engine["commit"]>) => {
      const commit = { entity: args[0], effects: args[2] };
      const done = trouble.note(commit);
      return around("commit", trouble.faultOf(commit), () => engine.commit(...args)).finally(done);
    }),
    due: value(async function (this: Engine, ...args: Parameters<Engine["due"]>) {
      trouble.asking++;
      trouble.askedAtOnce = Math.max(trouble.askedAtOnce, trouble.asking);
      try {
        return await engine.due.apply(this, args);
      } finally {
        trouble.asking--;
      }
    }),
  });
}

export interface Stage {
  readonly url: string;
  readonly app: ReturnType<typeof buildApp>;
  readonly engine: Engine;
  readonly trouble: Trouble;
  /** What was reported as a fault; must be empty at the end. */
  readonly reports: string[];
  /** The prefix of its keys, on Redis. */
  readonly prefix: string;
  now(): number;
  /** Moves the clock, without anybody looking. */
  pass(ms: number): void;
  /** One pass over every shard of the index. */
  sweep(): Promise<void>;
  /** Everything but the engine and the address is made anew, and finds what the engine has. */
  restart(): Promise<void>;
  /** What the index would hand to a sweep in a hundred years: everything that is tracked. */
  tracked(): Promise<readonly Entity[]>;
}

const LONG_MS = 100 * 365 * 24 * 3_600_000;

export async function openStage(
  engineName: EngineName,
  options: ServerOptions = {},
  outside: Outside = {},
): Promise<Stage> {
  const world = manualWorld(1, Date.now());
  const directory = engineName === "disk" ? temporaryDir() : undefined;
  const place = engineName === "redis" ? sharedRedis() : undefined;
  let aheadMs = 0;
  const now = () => world.now() + aheadMs;
  const movable = { ...realWorld(), now, monotonicMs: world.monotonicMs };
  const bare =
    place !== undefined
      ? await openRedis({ ...place, limits: PATIENCE, world: realWorld() }, sharedTopology)
      : directory !== undefined
        ? await openWith({ dir: directory.dir, world: movable }, inlinePorts())
        : openMemory({ world: movable });
  const trouble = new Trouble();
  const engine = troubled(bare, trouble, now);
  const reports: string[] = [];
  const report = (what: string, fault: unknown) => void reports.push(`${what}: ${fault}`);
  const build = () => buildApp(withDefaults({ ...options, report }), world, engine, outside);
  let app = build();
  const door = await HttpDoor.open({
    host: "127.0.0.1",
    port: 0,
    requestMs: 30_000,
    handle: (request) => app.router.route(request),
    report: (fault) => report("a request failed", fault),
  });
  const url = `http://127.0.0.1:${door.port}`;
  const answerNoMore = answerHere(url, {
    route: (request) => app.router.route(request),
    report: (fault) => report("a request failed", fault),
  });
  onTestFinished(async () => {
    answerNoMore();
    app.drain();
    await door.close();
    await app.stop();
    await bare.close();
    directory?.remove();
    expect(reports).toEqual([]);
  });
  const due = async () => {
    const shards = Array.from({ length: engine.shards }, (_, shard) => engine.due(shard, 10_000));
    return (await Promise.all(shards)).flat();
  };
  return {
    url,
    get app() {
      return app;
    },
    engine,
    trouble,
    reports,
    prefix: place?.prefix ?? "",
    now: () => world.now(),
    pass: (ms) => world.advance(ms),
    sweep: () => app.sweep(),
    restart: async () => {
      await app.stop();
      app = build();
      app.start();
    },
    tracked: async () => {
      aheadMs = LONG_MS;
      const found = await due();
      aheadMs = 0;
      return found;
    },
  };
}
