/**
 * A server for the tests of channels: the real one over a real HTTP door, on a clock that the test moves, with an engine whose
 * steps the test can make fail and whose calls it can see. Sweeps when the test says so.
 */
import { type ServerOptions, withDefaults } from "@sluice/server";
import { expect, onTestFinished } from "vitest";
import { CHANNEL } from "../../packages/server/src/channels/state.ts";
import { buildApp } from "../../packages/server/src/compose.ts";
import { HttpDoor } from "../../packages/server/src/doors/http/node-adapter.ts";
import { route } from "../../packages/server/src/doors/http/router.ts";
import { type Effect, type Engine, EngineError, type Entity } from "../../packages/server/src/engine/contract.ts";
import { openDisk } from "../../packages/server/src/engine/disk/open.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import { openRedis } from "../../packages/server/src/engine/redis/open.ts";
import { Sweeper } from "../../packages/server/src/engine/sweeper.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import type { EngineName } from "../e2e/server.ts";
import { temporaryDir } from "../support/disk.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { manualWorld } from "../support/world.ts";

/** `refused`: nothing was done. `lost`: it was done, and the word of it did not come back. */
export type Fault = "refused" | "lost";

/** What the engine was asked for, and what is to go wrong next. */
export class Trouble {
  readonly calls: string[] = [];
  readonly committed: (readonly Effect[])[] = [];
  hit: Fault | undefined;
  load: Fault | undefined;
  commit: Fault | undefined;
  /** Only commits with such an effect are in trouble; undefined: all are. */
  effect: Effect["op"] | undefined;
  read: Fault | undefined;
  /** Questions to the index that are not answered yet, and the most that there were at once. */
  asking = 0;
  askedAtOnce = 0;

  /** The kinds of calls since the last time this was asked. */
  taken(): string[] {
    return this.calls.splice(0);
  }
}

const gone = () => new EngineError("unavailable", "the engine cannot be reached, says the test");

/** The engine with the trouble in between. The time of Redis cannot be moved, but what the engine says that it is can. */
function troubled(engine: Engine, trouble: Trouble, now: () => number): Engine {
  const around = async <T>(call: "hit" | "load" | "commit" | "read", work: () => T | Promise<T>, spared = false) => {
    trouble.calls.push(call);
    const fault = spared ? undefined : trouble[call];
    if (fault === "refused") throw gone();
    const result = await work();
    if (fault === "lost") throw gone();
    return result;
  };
  const value = <T>(it: T) => ({ value: it });
  return Object.create(engine, {
    now: value(now),
    hit: value((...args: Parameters<Engine["hit"]>) => around("hit", () => engine.hit(...args))),
    read: value((...args: Parameters<Engine["read"]>) => around("read", () => engine.read(...args))),
    load: value((...args: Parameters<Engine["load"]>) => {
      // Most loads are plain values, and stay so unless they are to fail.
      return trouble.load === undefined ? engine.load(...args) : around("load", () => engine.load(...args));
    }),
    commit: value((...args: Parameters<Engine["commit"]>) => {
      const [, , effects] = args;
      trouble.committed.push(effects);
      const isSpared = trouble.effect !== undefined && !effects.some(({ op }) => op === trouble.effect);
      return around("commit", () => engine.commit(...args), isSpared);
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
  readonly reports: string[];
  /** The prefix of its keys, on Redis. */
  readonly prefix: string;
  channel(id: string): Channel;
  /** Moves the clock, without anybody looking. */
  pass(ms: number): void;
  /** One pass over every shard of the index. */
  sweep(): Promise<void>;
  /** What the index would hand to a sweep in a hundred years: everything that is tracked. */
  tracked(): Promise<readonly Entity[]>;
}

const LONG_MS = 100 * 365 * 24 * 3_600_000;

export async function stage(engineName: EngineName, options: ServerOptions = {}): Promise<Stage> {
  const world = manualWorld(1, Date.now());
  const directory = engineName === "disk" ? temporaryDir() : undefined;
  const place = engineName === "redis" ? sharedRedis() : undefined;
  let aheadMs = 0;
  const now = () => world.now() + aheadMs;
  const movable = { ...realWorld(), now };
  const bare =
    place !== undefined
      ? await openRedis({ ...place, world: realWorld() })
      : directory !== undefined
        ? await openDisk({ dir: directory.dir, world: movable })
        : openMemory({ world: movable });
  const trouble = new Trouble();
  const engine = troubled(bare, trouble, now);
  const reports: string[] = [];
  const report = (what: string, fault: unknown) => void reports.push(`${what}: ${fault}`);
  const app = buildApp(withDefaults({ ...options, report }), world, engine);
  const door = await HttpDoor.open({
    host: "127.0.0.1",
    port: 0,
    handle: (request) => route(app.features, request),
    report: (fault) => report("a request failed", fault),
  });
  const sweeper = new Sweeper(engine, world, (e, fault) => report(`sweeping ${e?.key}`, fault));
  sweeper.handle(CHANNEL, async (e) => void (await app.channels.sweep(e.project, e.id)));
  onTestFinished(async () => {
    app.drain();
    await door.close();
    await sweeper.stop();
    await app.stop();
    await bare.close();
    directory?.remove();
    expect(reports).toEqual([]);
  });
  const url = `http://127.0.0.1:${door.port}`;
  const due = async () => {
    const shards = Array.from({ length: engine.shards }, (_, shard) => engine.due(shard, 10_000));
    return (await Promise.all(shards)).flat();
  };
  return {
    url,
    app,
    engine,
    trouble,
    reports,
    prefix: place?.prefix ?? "",
    channel: (id) => new Channel(url, id),
    pass: (ms) => world.advance(ms),
    sweep: () => sweeper.sweepAll(),
    tracked: async () => {
      aheadMs = LONG_MS;
      const found = await due();
      aheadMs = 0;
      return found;
    },
  };
}

export type Phase = "START" | "DELTA" | "END" | "ERROR";

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: bodies are whatever the test expects of them.
  readonly body: any;
}

/** One channel as a client sees it. */
export class Channel {
  readonly address: string;

  constructor(url: string, id: string, project = "default") {
    this.address = `${url}/v1/${project}/channels/${encodeURIComponent(id)}`;
  }

  get events(): string {
    return `${this.address}/events`;
  }

  async post(body: string): Promise<Answer> {
    const headers = { "Content-Type": "application/json" };
    const response = await fetch(`${this.address}/publish`, { method: "POST", headers, body });
    return { status: response.status, headers: response.headers, body: await response.json() };
  }

  send(phase: Phase, sequence: number, payload: unknown = null, messageId?: string): Promise<Answer> {
    return this.post(JSON.stringify({ messageId, phase, sequence, payload }));
  }

  sendAll(messages: readonly object[]): Promise<Answer> {
    return this.post(JSON.stringify({ messages }));
  }

  /** Publishes what must be taken; the offset of the last message. */
  async takes(...messages: readonly object[]): Promise<string> {
    const answer = await this.sendAll(messages);
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
    return answer.body.offset;
  }

  /** DELTAs with these sequences, each with its sequence as payload. */
  deltas(from: number, to: number): Promise<string> {
    const sequences = Array.from({ length: to - from + 1 }, (_, i) => from + i);
    return this.takes(...sequences.map((sequence) => ({ phase: "DELTA", sequence, payload: sequence })));
  }
}

/** What a refusal says that it is. */
export async function codeOf(response: Response): Promise<string> {
  return ((await response.json()) as { code: string }).code;
}

export const START = { phase: "START", sequence: 0 };
