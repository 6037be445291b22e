/**
 * Members on different nodes of one Redis Cluster, while nodes are killed: the one that leads, and others with members. The nodes
 * are real processes. SLUICE_DEEP=1 kills many in a row.
 */
import { parseOffset } from "@sluice/protocol";
import { expect, inject, it, onTestFinished } from "vitest";
import { createdStream, eventually, sleep } from "../e2e/server.ts";
import { PATIENCE } from "../support/shared-redis.ts";
import { type ServingProcess, serveInProcess } from "../support/sluice-process.ts";
import { Ledger } from "./ledger.ts";
import { Worker } from "./worker.ts";

const ROUNDS = process.env.SLUICE_DEEP === "1" ? 12 : 1;
const NODES = 3;
const STREAMS = ["kills/1", "kills/2", "kills/3", "kills/4"];
const MODES = ["share", "queue"];
const TOPICS = MODES.map((mode) => `$${mode}/g/kills/#`);
/** The claim of a leader ends 5 s after its last renewal, and another one leads within 8 s of that. */
const REPLACED_MS = 5_000 + 8_000;

interface Shown {
  readonly source: string;
  readonly lag: number;
  readonly leader: { readonly epoch: number } | null;
  readonly members: readonly unknown[];
  readonly streams: readonly { readonly stream: string; readonly progress: string }[];
}

let stages = 0;

class Nodes {
  readonly alive: ServingProcess[] = [];
  private readonly flags: readonly string[];

  constructor() {
    const { commandMs, deadlineMs } = PATIENCE;
    const prefix = `kill${process.pid}.${stages++}`;
    this.flags = ["--redis", inject("redisUrls").join(","), "--set", `redis.prefix=${prefix}`];
    this.flags = [...this.flags, "--set", `redis.commandMs=${commandMs}`, "--set", `redis.deadlineMs=${deadlineMs}`];
  }

  async add(): Promise<void> {
    this.alive.push(await serveInProcess(this.flags));
  }

  /** Starting with the given one, so that members spread. */
  urls(first: number): string[] {
    return this.alive.map((_, i) => this.alive[(first + i) % this.alive.length]!.url);
  }

  async kill(index: number): Promise<void> {
    const [victim] = this.alive.splice(index, 1);
    victim!.child.kill("SIGKILL");
    await victim!.ended;
  }

  async look(mode: string): Promise<Shown> {
    const { url } = this.alive[0]!;
    return (await fetch(`${url}/v1/groups/g?mode=${mode}`)).json() as Promise<Shown>;
  }

  /** How many of the groups each node leads. */
  leaders(): Promise<number[]> {
    return Promise.all(
      this.alive.map(async ({ url }) => {
        const text = await (await fetch(`${url}/metrics`)).text();
        return Number(/^sluice_group_leaders (\d+)$/m.exec(text)?.[1]);
      }),
    );
  }

  /** The sum of the terms of all leaders, which grows with each one that is replaced. Not a number while one is missing. */
  async terms(): Promise<number> {
    const shown = await Promise.all(MODES.map((mode) => this.look(mode)));
    return shown.reduce((sum, { leader }) => sum + (leader?.epoch ?? Number.NaN), 0);
  }
}

/** Appends to all streams until it is stopped; a message whose outcome is unknown is sent again. */
function publisher(nodes: Nodes): { stop(): Promise<void> } {
  let isStopped = false;
  const append = async (stream: string, value: number) => {
    for (;;) {
      const url = `${nodes.alive[value % nodes.alive.length]!.url}/v1/stream/${stream}`;
      const headers = { "content-type": "application/json" };
      const answer = await fetch(url, { method: "POST", headers, body: `[${value}]` }).catch(() => undefined);
      if (answer?.ok) return;
      await sleep(20);
    }
  };
  const running = (async () => {
    for (let value = 0; !isStopped; value++) {
      await append(STREAMS[value % STREAMS.length]!, value);
      await sleep(10);
    }
  })();
  return {
    stop: () => {
      isStopped = true;
      return running;
    },
  };
}

it(`members on ${NODES} nodes process everything in order while ${ROUNDS === 1 ? "the leading node is" : "nodes are"} killed`, {
  timeout: 60_000 + ROUNDS * 30_000,
}, async () => {
  const nodes = new Nodes();
  await Promise.all(Array.from({ length: NODES }, () => nodes.add()));
  for (const path of STREAMS) await createdStream(nodes.alive[0]!, path, "application/json");
  const began = Date.now();
  const ledgers = TOPICS.map(() => new Ledger(() => Date.now() - began));
  const workers = TOPICS.flatMap((topic, t) =>
    Array.from({ length: NODES }, (_, i) => new Worker(() => nodes.urls(i), `w${i}`, topic, ledgers[t]!)),
  );
  onTestFinished(() => {
    for (const worker of workers) worker.stop();
  });
  const publishing = publisher(nodes);
  for (let round = 0; round < ROUNDS; round++) {
    await eventually(async () => {
      for (const mode of MODES) expect((await nodes.look(mode)).members).toHaveLength(NODES);
    }, 30_000);
    await sleep(500);
    const [terms, leaders] = [await nodes.terms(), await nodes.leaders()];
    const leading = leaders.indexOf(Math.max(...leaders));
    const victim = round % 2 === 0 ? leading : (leading + 1) % NODES;
    for (const ledger of ledgers) ledger.note(`a node that leads ${leaders[victim]} groups is killed`);
    await nodes.kill(victim);
    const isReplaced = async () => expect(await nodes.terms()).toBeGreaterThanOrEqual(terms + leaders[victim]!);
    await eventually(isReplaced, REPLACED_MS);
    await nodes.add();
  }
  await publishing.stop();
  for (const path of STREAMS) {
    const answer = await fetch(`${nodes.alive[0]!.url}/v1/stream/${path}?offset=-1`);
    const { seq } = parseOffset(answer.headers.get("stream-next-offset")!)!;
    expect(seq).toBeGreaterThan(10);
    for (const ledger of ledgers) ledger.published(path, seq);
  }
  await eventually(async () => {
    for (const mode of MODES) expect(await nodes.look(mode)).toMatchObject({ source: "leader", lag: 0 });
  }, 40_000);
  const stored = await Promise.all(MODES.map((mode) => nodes.look(mode)));
  for (const [i, ledger] of ledgers.entries()) {
    const rows = new Map(stored[i]!.streams.map(({ stream, progress }) => [stream, progress]));
    ledger.audit((path) => parseOffset(rows.get(path) ?? "")?.seq ?? 0);
    expect(ledger.violations, ledger.story.slice(-200).join("\n")).toEqual([]);
    expect(ledger.deliveries).toBeGreaterThan(0);
  }
});
