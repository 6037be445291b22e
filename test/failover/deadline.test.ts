/**
 * Answers while Redis fails: every request, in every kind of failure, is answered by the deadline. Abandoned commits are settled
 * afterwards: no message is there twice, and every acknowledged one is there.
 */
import { createServer, type RunningServer } from "@sluice/server";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AwakeClock } from "../support/awake-clock.ts";
import { eventually, sleep } from "../support/eventually.ts";
import { RedisCluster, type RedisServer } from "../support/redis.ts";

const DEADLINE_MS = 2_000;
/** Slack for a machine that is busy with other tests. */
const SLACK_MS = 2_000;
const TIMEOUT_MS = 120_000;
const TEXT = { "Content-Type": "text/plain" };
const JSON_TYPE = { "Content-Type": "application/json" };

const clock = new AwakeClock();
let cluster: RedisCluster;
let node: RunningServer;

beforeAll(async () => {
  // No master is voted out during a test, so a failure lasts until the test ends it.
  cluster = await RedisCluster.start({ proxied: true });
  const redis = { urls: cluster.urls, waitReplicas: 1, deadlineMs: DEADLINE_MS };
  node = await createServer({ port: 0, log: false, redis, longPollMs: 60_000, report: () => {} });
}, TIMEOUT_MS);
afterAll(async () => {
  clock.stop();
  await node?.close();
  await cluster?.close();
});

interface Told {
  readonly what: string;
  readonly status: number;
  readonly retryAfter: string | null;
  readonly ms: number;
}

async function tell(what: string, path: string, init: RequestInit = {}): Promise<Told> {
  const startMs = clock.now();
  const response = await fetch(`${node.url}/v1/${path}`, { ...init, signal: AbortSignal.timeout(30_000) });
  const told = { what, status: response.status, retryAfter: response.headers.get("retry-after") };
  await response.body?.cancel();
  return { ...told, ms: clock.now() - startMs };
}

const post = (body: string | object, headers: object = {}) =>
  typeof body === "string"
    ? { method: "POST", headers: { ...TEXT, ...headers }, body }
    : { method: "POST", headers: { ...JSON_TYPE, ...headers }, body: JSON.stringify(body) };
const delta = (sequence: number) => post({ phase: "DELTA", sequence, payload: sequence });
const wake = { type: "pull-wake", pattern: "a/*", wake_stream: "wakes" };

/** One request of each kind that needs the store. */
function everyKind(name: string): Promise<Told>[] {
  const tail = "offset=now";
  return [
    tell("append", `stream/${name}`, post("x")),
    tell(
      "append by a producer",
      `stream/${name}`,
      post("x", { "Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0" }),
    ),
    tell("create", `stream/${name}-new`, { method: "PUT", headers: TEXT }),
    tell("fork", `stream/${name}-fork`, { method: "PUT", headers: { ...TEXT, "Stream-Forked-From": name } }),
    tell("read", `stream/${name}?offset=-1`),
    tell("head", `stream/${name}`, { method: "HEAD" }),
    tell("read the tail", `stream/${name}?${tail}`),
    tell("long-poll", `stream/${name}?${tail}&live=long-poll`),
    tell("SSE", `stream/${name}?${tail}&live=sse`),
    tell("list", "default/streams"),
    tell("delete", `stream/${name}-gone`, { method: "DELETE" }),
    tell("subscribe", `stream/__ds/subscriptions/${name}-s`, {
      method: "PUT",
      headers: JSON_TYPE,
      body: JSON.stringify(wake),
    }),
    tell("claim", `stream/__ds/subscriptions/${name}/claim`, post({ worker: "w" })),
    tell("publish", `default/channels/${name}/publish`, delta(1)),
    tell("follow a channel", `default/channels/${name}/events`),
  ];
}

async function prepare(name: string): Promise<void> {
  for (const path of [name, `${name}-gone`, "wakes"]) {
    const init = { method: "PUT", headers: path === "wakes" ? JSON_TYPE : TEXT };
    await eventually(async () => expect((await tell("create", `stream/${path}`, init)).status).toBeLessThan(300));
  }
  const subscribed = { method: "PUT", headers: JSON_TYPE, body: JSON.stringify(wake) };
  // A busy machine may refuse some of it; each of these requests may be repeated.
  await eventually(async () => {
    const { status } = await tell("subscribe", `stream/__ds/subscriptions/${name}`, subscribed);
    expect(status).toBeLessThan(300);
  });
  const started = post({ phase: "START", sequence: 0, payload: null });
  await eventually(async () => {
    expect((await tell("start", `default/channels/${name}/publish`, started)).status).toBe(202);
  });
}

const late = (told: readonly Told[]) => told.filter(({ ms }) => ms > DEADLINE_MS + SLACK_MS);
const refusedOtherwise = (told: readonly Told[]) =>
  told.filter(({ status, retryAfter }) => status !== 503 || retryAfter === null);

async function masters(): Promise<RedisServer[]> {
  let found: RedisServer[] = [];
  await eventually(async () => {
    found = await cluster.masters();
    expect(found).toHaveLength(3);
  }, 30_000);
  return found;
}

interface Trouble {
  readonly name: string;
  /** Returns the function that ends it. */
  begin(): Promise<() => Promise<void>>;
}

const TROUBLES: readonly Trouble[] = [
  {
    name: "masters that hang",
    async begin() {
      const stopped = await masters();
      for (const master of stopped) master.signal("SIGSTOP");
      return async () => {
        for (const master of stopped) master.signal("SIGCONT");
      };
    },
  },
  {
    name: "masters that were killed",
    async begin() {
      const killed = await masters();
      await Promise.all(killed.map((master) => master.kill()));
      return async () => void (await Promise.all(killed.map((master) => master.start())));
    },
  },
  {
    name: "a network that swallows everything",
    async begin() {
      for (const one of cluster.nodes) one.cutOff();
      return async () => {
        for (const one of cluster.nodes) one.heal();
      };
    },
  },
  {
    name: "masters that take everything in and never answer",
    async begin() {
      for (const one of cluster.nodes) one.mute();
      return async () => {
        for (const one of cluster.nodes) one.heal();
      };
    },
  },
  {
    name: "replicas that hang, so that waiting for them never succeeds",
    async begin() {
      const stopped = await cluster.replicas();
      for (const replica of stopped) replica.signal("SIGSTOP");
      return async () => {
        for (const replica of stopped) replica.signal("SIGCONT");
      };
    },
  },
];

describe.each(TROUBLES)("with $name", ({ name, begin }) => {
  const stream = name.replaceAll(/[^a-z]+/g, "-");

  it("every kind of request is refused by the deadline, and works again by itself", {
    timeout: TIMEOUT_MS,
  }, async () => {
    await cluster.settled();
    await prepare(stream);
    const end = await begin();
    const told: Told[] = [];
    try {
      told.push(...(await Promise.all(everyKind(stream))));
      // A second round, while the effects of the first remain.
      told.push(...(await Promise.all(everyKind(stream))));
    } finally {
      await end();
    }
    expect(late(told)).toEqual([]);
    // A listing rests on no commit, and so on no replica.
    expect(refusedOtherwise(told).filter(({ what }) => what !== "list" || !name.startsWith("replicas"))).toEqual([]);
    await eventually(async () => {
      expect((await tell("append", `stream/${stream}`, post("again;"))).status).toBe(204);
      expect((await tell("publish", `default/channels/${stream}/publish`, delta(2))).status).toBe(202);
      expect((await tell("list", "default/streams")).status).toBe(200);
    }, 60_000);
    // Refused readers are no longer counted.
    await eventually(() => expect(node.tail.readers).toBe(0), 30_000);
  });

  it("requests that queue for one stream are each refused by their own deadline, and abandoned commits are settled", {
    timeout: TIMEOUT_MS,
  }, async () => {
    await cluster.settled();
    const path = `stream/${stream}-queue`;
    expect((await tell("create", path, { method: "PUT", headers: TEXT })).status).toBe(201);
    const acknowledged: string[] = [];
    const producer = (number: number) => ({
      "Producer-Id": "p",
      "Producer-Epoch": "0",
      "Producer-Seq": String(number),
    });
    const append = async (text: string, headers: object = {}) => {
      const told = await tell(text, path, post(`${text};`, headers));
      if (told.status < 300) acknowledged.push(text);
      return told;
    };
    const end = await begin();
    const asked: Promise<Told>[] = [];
    try {
      asked.push(append("sure 0", producer(0)));
      for (let i = 0; i < 40; i++) {
        asked.push(append(`once ${i}`));
        await sleep(DEADLINE_MS / 20);
      }
      expect(late(await Promise.all(asked))).toEqual([]);
      expect(refusedOtherwise(await Promise.all(asked))).toEqual([]);
    } finally {
      await end();
    }
    for (const [i, text] of ["sure 0", "sure 1"].entries()) {
      await eventually(async () => expect((await append(text, producer(i))).status).toBeLessThan(300), 60_000);
    }
    // Calls that are still in flight may arrive.
    await sleep(500);
    const log = (await (await fetch(`${node.url}/v1/${path}?offset=-1`)).text()).split(";").slice(0, -1);
    expect(log).toEqual([...new Set(log)]);
    for (const text of acknowledged) expect(log).toContain(text);
    // An abandoned commit is not written later: the last acknowledged message stays last.
    expect(log.at(-1)).toBe("sure 1");
  });
});

describe("with a healthy Redis", () => {
  it("a client may take longer than the deadline to send its body, and a reader to wait", {
    timeout: TIMEOUT_MS,
  }, async () => {
    await cluster.settled();
    expect((await tell("create", "stream/slow", { method: "PUT", headers: TEXT })).status).toBe(201);
    const waiting = tell("long-poll", "stream/slow?offset=now&live=long-poll");
    const body = new ReadableStream<Uint8Array>({
      async start(controller) {
        for (let i = 0; i < 3; i++) {
          await sleep(DEADLINE_MS / 2);
          controller.enqueue(new TextEncoder().encode("slow;"));
        }
        controller.close();
      },
    });
    const startMs = performance.now();
    const told = await tell("append", "stream/slow", { method: "POST", headers: TEXT, body, duplex: "half" });
    expect(performance.now() - startMs).toBeGreaterThan(DEADLINE_MS);
    expect(told.status).toBe(204);
    expect((await waiting).status).toBe(200);
  });
});
