/**
 * A real server process, used by all rows of a suite: what each row does first, then `kill -9` and a new process over the same data,
 * then what each row finds.
 */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, inject, it } from "vitest";
import type { EngineName } from "../e2e/server.ts";
import { temporaryDir } from "../support/disk.ts";
import { type Env, serveInProcess } from "../support/sluice-process.ts";
import { PATIENT } from "./api.ts";

export interface ProcessRow<T = unknown> {
  readonly name: string;
  before(url: string): Promise<T>;
  after(url: string, was: T): Promise<void>;
}

/** So that every row keeps its own type. */
export function row<T>(
  name: string,
  before: (url: string) => Promise<T>,
  after: (url: string, was: T) => Promise<void>,
): ProcessRow<T> {
  return { name, before, after };
}

// biome-ignore lint/suspicious/noExplicitAny: each row gets back what it made itself.
type AnyRow = ProcessRow<any>;

type Was = { readonly value: unknown } | { readonly fault: unknown };

export function acrossKill(
  engine: EngineName,
  settings: Record<string, unknown>,
  rows: readonly AnyRow[],
  env: Env = {},
) {
  const cleanUps: (() => void)[] = [];
  const done = new Map<string, Was>();
  let url = "";

  const begin = async (args: readonly string[]) => {
    const serving = await serveInProcess(args, env, (clean) => cleanUps.push(clean));
    url = serving.url;
    return serving;
  };

  beforeAll(async () => {
    const { dir, remove } = temporaryDir();
    cleanUps.push(remove);
    const sets = Object.entries({ "internal.fanout.graceMs": PATIENT.graceMs, ...settings }).flatMap(
      ([name, value]) => ["--set", `${name}=${value}`],
    );
    const args = [...placeOf(engine, dir), ...sets];
    const first = await begin(args);
    for (const { name, before } of rows) {
      done.set(
        name,
        await before(url).then(
          (value) => ({ value }),
          (fault) => ({ fault }),
        ),
      );
    }
    first.child.kill("SIGKILL");
    await first.ended;
    await begin(args);
  }, 120_000);

  afterAll(() => {
    for (const clean of cleanUps.reverse()) clean();
  });

  for (const { name, after } of rows) {
    it(name, async () => {
      const was = done.get(name)!;
      if ("fault" in was) throw was.fault;
      await after(url, was.value);
    });
  }
}

function placeOf(engine: EngineName, dir: string): string[] {
  if (engine === "redis") {
    const prefix = `p${randomUUID().slice(0, 8)}`;
    const patience = ["--set", "redis.commandMs=10000", "--set", "redis.deadlineMs=25000"];
    return ["--redis", inject("redisUrls").join(","), "--set", `redis.prefix=${prefix}`, ...patience];
  }
  return ["--data", dir];
}
