/**
 * Rows of the tables that need faults, through a whole server in a process of its own: what each row does first, then `kill -9` in
 * the middle of all of it and a new process whose steps all work, then what each row finds.
 */
import { type ChildProcess, fork } from "node:child_process";
import { dirname, join, relative, resolve } from "node:path";
import type { ServerOptions } from "@sluice/server";
import { build, type Plugin } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { MetricPoint } from "../../packages/server/src/sessions/events.ts";
import type { EngineName } from "../e2e/server.ts";
import { temporaryDir } from "../support/disk.ts";
import { eventually } from "../support/eventually.ts";
import { bundledBin } from "../support/server-bundle.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { cleanEnv } from "../support/sluice-process.ts";
import { Api } from "./api.ts";
import type { Ask, Rule, Seen } from "./faulty-server.ts";

const SOURCES = resolve(import.meta.dirname, "../../packages/server/src");
const BUILT = resolve(SOURCES, "../dist");

/** The child has the built server, as other processes of tests have. */
const builtServer: Plugin = {
  name: "built-server",
  setup: ({ onResolve }) =>
    onResolve({ filter: /packages\/server\/src\// }, ({ path, resolveDir }) => {
      const file = relative(SOURCES, resolve(resolveDir, path)).replace(/\.ts$/, ".js");
      return { path: join(BUILT, file) };
    }),
};

/** Packages that are CommonJS load the modules of Node.js with it. */
const REQUIRE = `import * as modules from "node:module"; const require = modules.createRequire(import.meta.url);`;

/** Makes one file of the child, because loading some hundred modules takes a process longer than most rows. */
async function childScript(): Promise<string> {
  // Beside the bundled command, where it finds lmdb and the threads of the disk.
  const outfile = join(dirname(bundledBin()), `faulty-server-${process.pid}.mjs`);
  const entry = join(import.meta.dirname, "faulty-server.ts");
  const how = { bundle: true, platform: "node", format: "esm", target: "node20", logLevel: "error" } as const;
  const external = ["lmdb", "protobufjs"];
  await build({ ...how, external, banner: { js: REQUIRE }, entryPoints: [entry], outfile, plugins: [builtServer] });
  return outfile;
}

/** One life of the server. */
export class FaultyServer {
  private readonly waiting = new Map<number, (answer: unknown) => void>();
  private asked = 0;

  private constructor(
    private readonly child: ChildProcess,
    readonly url: string,
  ) {
    child.on("message", ({ id, answer }: { id: number; answer: unknown }) => {
      this.waiting.get(id)?.(answer);
      this.waiting.delete(id);
    });
  }

  static async start(script: string, options: ServerOptions): Promise<FaultyServer> {
    const stdio = ["ignore", "ignore", "inherit", "ipc"] as const;
    const child = fork(script, [JSON.stringify(options)], { execArgv: [], env: cleanEnv(), stdio: [...stdio] });
    const url = await new Promise<string>((resolve, reject) => {
      child.once("message", (hello: { url: string }) => resolve(hello.url));
      child.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
    });
    return new FaultyServer(child, url);
  }

  private ask<T>(asked: Ask): Promise<T> {
    const id = this.asked++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, resolve as (answer: unknown) => void);
      this.child.send({ id, asked }, (fault) => fault && reject(fault));
    });
  }

  /** From here on these hold for what is done about the stream, instead of those of before. */
  rules(stream: string, ...rules: Rule[]): Promise<void> {
    return this.ask({ ask: "rules", stream, rules });
  }

  /** From here on this becomes of every copy of the stream, or of those to some sessions. */
  copies(stream: string, fate: Rule["fate"], ...sessions: string[]): Promise<void> {
    return this.rules(stream, { method: "deliver", stream, fate, ...(sessions.length > 0 && { sessions }) });
  }

  heal(): Promise<void> {
    return this.ask({ ask: "heal" });
  }

  /** The clock of the app stands still again. */
  freeze(): Promise<void> {
    return this.ask({ ask: "freeze" });
  }

  pass(ms: number): Promise<void> {
    return this.ask({ ask: "pass", ms });
  }

  seen(stream: string): Promise<Seen> {
    return this.ask({ ask: "seen", stream });
  }

  /** How many steps about the session are under way. */
  pending(session: string): Promise<number> {
    return this.ask({ ask: "pending", session });
  }

  /** What an embedder was told of these streams, sessions or event types. */
  points(...of: string[]): Promise<readonly MetricPoint[]> {
    return this.ask({ ask: "points", of });
  }

  /** From here on this is the time of what is stored; without it, what it really is. */
  engineTime(atMs?: number): Promise<number> {
    return this.ask({ ask: "engineTime", atMs });
  }

  /** The index has been gone through, from its beginning to its end. */
  async swept(): Promise<void> {
    const before = await this.ask<number>({ ask: "sweeps" });
    await eventually(async () => expect(await this.ask<number>({ ask: "sweeps" })).toBeGreaterThan(before + 1), 20_000);
  }

  /** So many steps about the stream are under way. */
  underWay(stream: string, count: number): Promise<void> {
    return eventually(async () => expect((await this.seen(stream)).pending).toBe(count), 20_000);
  }

  async kill(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill("SIGKILL");
    await ended;
  }
}

/** Where a row is played. */
export interface On {
  readonly api: Api;
  readonly server: FaultyServer;
  /** Whether this is another process than the one of before. */
  readonly isNext: boolean;
}

export interface FaultRow<T = unknown> {
  readonly name: string;
  before(on: On): Promise<T>;
  after(on: On, was: T): Promise<void>;
}

/** So that every row keeps its own type. */
export function faultRow<T>(
  name: string,
  before: (on: On) => Promise<T>,
  after: (on: On, was: T) => Promise<void>,
): FaultRow<T> {
  return { name, before, after };
}

// biome-ignore lint/suspicious/noExplicitAny: each row gets back what it made itself.
type AnyRow = FaultRow<any>;
type Was = { readonly value: unknown } | { readonly fault: unknown };

/** What was not delivered is tried again soon. */
const SOON = { retryMs: 20, maxRetryMs: 100, graceMs: 50, checkMs: 200 };

/** Rows that are played under the same settings. */
export interface Chapter {
  readonly name: string;
  readonly fanout: object;
  /** Internal settings of fan-out. */
  readonly internal?: object;
  readonly rows: readonly AnyRow[];
}

/** One chapter after the other: what is killed at the end of one is the beginning of the next, under other settings. */
export function acrossKills(engine: EngineName, chapters: readonly Chapter[]): void {
  const { dir, remove } = temporaryDir();
  let script = "";
  let server: FaultyServer;
  let on: On;
  let options: ServerOptions = {};

  const start = async ({ fanout, internal }: Chapter, isNext: boolean) => {
    const inside = { session: { endAgainMs: 100 }, fanout: { ...SOON, ...internal } };
    server = await FaultyServer.start(script, { ...options, fanout, internal: inside });
    on = { api: new Api(server.url), server, isNext };
    if (isNext) await server.heal();
  };
  const next = async (to: Chapter) => {
    await server.kill();
    await start(to, true);
  };

  beforeAll(async () => {
    script = await childScript();
    options = engine === "redis" ? { redis: sharedRedis() } : { data: join(dir, "data") };
    await start(chapters[0]!, false);
  }, 60_000);

  afterAll(async () => {
    await server?.kill();
    remove();
  });

  for (const [i, chapter] of chapters.entries()) {
    const following = chapters[i + 1] ?? chapter;
    describe(chapter.name, () => {
      const done = new Map<string, Was>();
      beforeAll(async () => {
        on = { ...on, isNext: false };
        await server.freeze();
        for (const row of chapter.rows) done.set(row.name, await play(row, on));
        await next(following);
      }, 60_000);

      for (const { name, after } of chapter.rows) {
        it(name, async () => {
          const was = done.get(name)!;
          if ("fault" in was) throw was.fault;
          await after(on, was.value);
        });
      }
    });
  }
}

async function play({ before }: AnyRow, on: On): Promise<Was> {
  try {
    return { value: await before(on) };
  } catch (fault) {
    return { fault };
  }
}
