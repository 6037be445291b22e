/**
 * A server for the tests of sessions: on a clock that the test moves, with a core that the test can make fail and a sink that
 * keeps what happened; and the calls that clients of sessions make.
 */
import { randomUUID } from "node:crypto";
import type { ServerOptions } from "@sluice/server";
import { expect } from "vitest";
import type { MetricPoint } from "../../packages/server/src/sessions/events.ts";
import {
  laggardTable,
  type Registry,
  registryEntity,
  registryTable,
  subscriberTable,
} from "../../packages/server/src/sessions/state.ts";
import type { EngineName } from "../e2e/server.ts";
import { type Stage as BareStage, openStage } from "../e2e/stage.ts";
import { sleep } from "../support/eventually.ts";
import { Api } from "./api.ts";
import { FaultyCore } from "./core.ts";

export interface Stage extends BareStage {
  readonly core: FaultyCore;
  /** Everything that was told of sessions, in its order. */
  readonly points: MetricPoint[];
  readonly api: Api;
  /** What the registry of a stream has stored. */
  registry(stream: string): Promise<StoredRegistry | undefined>;
  /** Lets time go on in small steps until it holds; it stands while a copy is being made. */
  until(check: () => void | Promise<void>, stepMs?: number): Promise<void>;
}

export interface StoredRegistry extends Registry {
  readonly subscribers: readonly string[];
  readonly lagging: readonly string[];
  /** Payloads that copies borrow. */
  readonly lent: number;
}

const PATIENCE_MS = 10_000;

export async function stage(engineName: EngineName, options: ServerOptions = {}): Promise<Stage> {
  const core = new FaultyCore();
  const points: MetricPoint[] = [];
  const onSessionEvent = (point: MetricPoint) => void points.push(point);
  const bare = await openStage(engineName, { onSessionEvent, ...options }, { streamPortOf: core.streamPortOf });
  const { engine } = bare;
  const registry = async (stream: string): Promise<StoredRegistry | undefined> => {
    const e = registryEntity("default", stream);
    const { rows, head } = await engine.load(e, [registryTable.at("")]);
    if (rows[0] === undefined) return undefined;
    const subscribers = await engine.rows(e, subscriberTable.name, "", 10_000);
    const lagging = await engine.rows(e, laggardTable.name, "", 10_000);
    return {
      ...registryTable.decode(rows[0]),
      subscribers: subscribers.map(({ key }) => key),
      lagging: lagging.map(({ key }) => key),
      lent: head.last.seq - head.start.seq,
    };
  };
  const until = async (check: () => void | Promise<void>, stepMs = 50) => {
    const deadline = Date.now() + PATIENCE_MS;
    for (;;) {
      try {
        return await check();
      } catch (reason) {
        if (Date.now() > deadline) throw reason;
        await sleep(2);
        // A machine that is busy must not look like a session that is slow.
        if (core.working === 0) bare.pass(stepMs);
      }
    }
  };
  return Object.assign(bare, { core, points, api: new Api(bare.url), registry, until });
}

export const uuid = (): string => randomUUID();

/** So many sessions that all follow the stream. */
export async function subscribers(api: Api, stream: string, count: number): Promise<string[]> {
  const sessions = Array.from({ length: count }, uuid).sort();
  const answers = await Promise.all(sessions.map((session) => api.subscribe(session, stream)));
  for (const { status, text } of answers) expect(status, text).toBe(200);
  return sessions;
}

export function typesOf(points: readonly MetricPoint[]): string[] {
  return points.map(({ blobs }) => blobs[2]);
}
