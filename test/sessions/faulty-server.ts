/**
 * A whole server in a process of its own, between whose fan-out and streams the test stands: it says over IPC which steps fail,
 * hang or find nobody, moves the clocks of app and engine, and asks for the metric points that an embedder would get. Started by
 * `faulty-process.ts`, which kills it in the middle of something.
 */
import { createServer } from "../../packages/server/src/compose.ts";
import type { Engine } from "../../packages/server/src/engine/contract.ts";
import { Sweeper } from "../../packages/server/src/engine/sweeper.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import type { ServerOptions } from "../../packages/server/src/server-options.ts";
import type { MetricPoint } from "../../packages/server/src/sessions/events.ts";
import { type FanoutQueueMessage, LocalQueue } from "../../packages/server/src/sessions/queue.ts";
import { Roster } from "../../packages/server/src/sessions/roster.ts";
import { type Call, type Fate, FaultyCore, type Method } from "./core.ts";

/** What becomes of steps of a kind: those about a stream, or those about some sessions. */
export interface Rule {
  readonly method: Method;
  readonly stream?: string;
  readonly sessions?: readonly string[];
  /** Only copies without a payload that contains this. */
  readonly lacking?: string;
  readonly fate: Fate;
}

/** What the parent may ask; each is answered. */
export type Ask =
  | { readonly ask: "rules"; readonly stream: string; readonly rules: readonly Rule[] }
  | { readonly ask: "heal" | "freeze" }
  | { readonly ask: "pass"; readonly ms: number }
  | { readonly ask: "seen"; readonly stream: string }
  /** How many steps about the session are under way. */
  | { readonly ask: "pending"; readonly session: string }
  /** Those of these streams, sessions or event types, in their order. */
  | { readonly ask: "points"; readonly of: readonly string[] }
  /** What time it is for the engine from here on; undefined: what it is. Answers it. */
  | { readonly ask: "engineTime"; readonly atMs: number | undefined }
  /** How many times the index has been gone through. */
  | { readonly ask: "sweeps" };

/** What was asked of the core for a stream, and what its queue was handed. */
export interface Seen {
  readonly calls: readonly { readonly method: Method; readonly session: string; readonly fanoutSeq?: number }[];
  readonly pending: number;
  /** The sizes of the queue messages, by call. */
  readonly sent: readonly (readonly number[])[];
}

const rules = new Map<string, readonly Rule[]>();
const sent: (readonly FanoutQueueMessage[])[] = [];
const core = new FaultyCore();
core.fate = (call) => [...rules.values()].flat().find((rule) => isMeant(rule, call))?.fate;

function isMeant({ method, stream, sessions, lacking }: Rule, call: Call): boolean {
  if (call.method !== method || (stream ?? call.stream) !== call.stream) return false;
  if (sessions !== undefined && !sessions.includes(call.id)) return false;
  const isLacked = ({ payload }: { readonly payload: Uint8Array }) => Buffer.from(payload).includes(lacking!);
  return lacking === undefined || call.copy?.logged.some(isLacked) !== true;
}

// The registry's steps have no port, so the test stands in their way here.
const { add, remove } = Roster.prototype;
Roster.prototype.add = function (this: Roster, input) {
  return core.meet({ method: "addSubscriber", project: "", id: input.session }, () => add.call(this, input));
};
Roster.prototype.remove = function (this: Roster, inputs, name) {
  const id = inputs[0]?.session ?? "";
  return core.meet({ method: "removeSubscribers", project: "", id }, () => remove.call(this, inputs, name));
};
const { send } = LocalQueue.prototype;
LocalQueue.prototype.send = function (this: LocalQueue, messages) {
  sent.push(messages);
  return send.call(this, messages);
};

/** What everything that is stored goes by. The time of Redis cannot be moved, but what the engine says that it is can. */
let engineTime: number | undefined;
let engineNow = Date.now;
let sweeps = 0;
const { start, sweepAll } = Sweeper.prototype;
Sweeper.prototype.start = function () {
  Sweeper.prototype.start = start;
  const { engine } = this as unknown as { engine: Engine };
  engineNow = engine.now.bind(engine);
  engine.now = () => engineTime ?? engineNow();
  return start.call(this);
};
Sweeper.prototype.sweepAll = async function () {
  await sweepAll.call(this);
  sweeps++;
};

const points: MetricPoint[] = [];

/** The clock of the app stands still, so that a test can tell to the millisecond, until there is nothing to tell any more. */
let now = Date.now();
let startedAt: number | undefined;
const clock = () => now + (startedAt === undefined ? 0 : Date.now() - startedAt);

function answer(asked: Ask): unknown {
  switch (asked.ask) {
    case "rules":
      rules.set(asked.stream, asked.rules);
      // What was stuck under the rules of before goes on.
      core.release(({ stream }) => stream === asked.stream);
      return;
    case "heal":
      rules.clear();
      core.release();
      startedAt = Date.now();
      return;
    case "freeze":
      now = clock();
      startedAt = undefined;
      return;
    case "pass":
      now += asked.ms;
      return;
    case "pending":
      return [...core.underWay].filter(({ id }) => id === asked.session).length;
    case "points":
      return points.filter(({ blobs }) => blobs.some((blob) => asked.of.includes(blob)));
    case "engineTime":
      engineTime = asked.atMs;
      return engineTime ?? engineNow();
    case "sweeps":
      return sweeps;
    case "seen": {
      const of = (call: Call) => call.stream === asked.stream;
      const seen = core.calls
        .filter(of)
        .map(({ method, id, copy }) => ({ method, session: id, fanoutSeq: copy?.fanoutSeq }));
      const mine = sent.filter(([message]) => message?.streamId === asked.stream);
      const pending = [...core.underWay].filter(of).length;
      const sizes = mine.map((messages) => messages.map(({ sessions }) => sessions.length));
      return { calls: seen, pending, sent: sizes } as Seen;
    }
  }
}

process.on("message", ({ id, asked }: { id: number; asked: Ask }) => process.send!({ id, answer: answer(asked) }));
// Nothing may be left behind when the test has gone.
process.on("disconnect", () => process.exit());

const options = JSON.parse(process.argv[2]!) as ServerOptions;
const report = () => {};
const world = { ...realWorld(), now: clock, monotonicMs: clock };
const onSessionEvent = (point: MetricPoint) => void points.push(point);
const given = { port: 0, log: false, report, onSessionEvent, ...options } as const;
const { url } = await createServer(given, { streamPortOf: core.streamPortOf, world });
process.send!({ url });
