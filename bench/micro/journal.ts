/**
 * Measures the commit rate of the disk engine without a server. Run: npx tsx bench/micro/journal.ts [seconds per case]
 *
 * Each committer waits for its commit before it sends the next one. A shared stream passes its rev on like a keeper: one commit
 * in flight, with the messages of all waiting committers.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type Effect,
  type Engine,
  type Entity,
  entity,
  type Message,
} from "../../packages/server/src/engine/contract.ts";
import { openDisk } from "../../packages/server/src/engine/disk/open.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";

const SECONDS = Number(process.argv[2] ?? 3);
const PAYLOAD = new Uint8Array(256).fill(120);

/** Microseconds that the main thread has worked, if the system reports them; waiting for a core does not count. */
function mainThreadMicros(): number {
  try {
    return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ")[0]) / 1_000;
  } catch {
    return Number.NaN;
  }
}

interface Case {
  readonly name: string;
  readonly committers: number;
  readonly streams: number;
  readonly messages: number;
}

const CASES: Case[] = [
  { name: "64 committers, 1 message, 1 stream", committers: 64, streams: 1, messages: 1 },
  { name: "64 committers, 1 message, 100 streams", committers: 64, streams: 100, messages: 1 },
  { name: "64 committers, 1 message, 10,000 streams", committers: 64, streams: 10_000, messages: 1 },
  { name: "512 committers, 1 message, 10,000 streams", committers: 512, streams: 10_000, messages: 1 },
  { name: "64 committers, 100 messages, 100 streams", committers: 64, streams: 100, messages: 100 },
  { name: "1 committer, 100 messages, 1 stream", committers: 1, streams: 1, messages: 100 },
];

/** Replaces a keeper: joins the messages that wait for a stream into one commit. */
class Writer {
  private rev = 0;
  private waiting: { messages: Message[]; done: () => void }[] = [];
  private busy = false;

  constructor(
    private readonly engine: Engine,
    private readonly e: Entity,
  ) {}

  append(messages: Message[]): Promise<void> {
    return new Promise((done) => {
      this.waiting.push({ messages, done });
      if (!this.busy) void this.flush();
    });
  }

  async flush(): Promise<void> {
    this.busy = true;
    while (this.waiting.length > 0) {
      const batch = this.waiting;
      this.waiting = [];
      const messages = batch.length === 1 ? batch[0]!.messages : batch.flatMap((one) => one.messages);
      const effects: Effect[] = [{ op: "append", messages }];
      if (this.rev === 0) effects.unshift({ op: "begin", generation: 1, at: { generation: 1, seq: 0 } });
      const result = await this.engine.commit(this.e, { rev: this.rev }, effects);
      if (result.kind !== "done") throw new Error(`a commit ended as ${result.kind}`);
      this.rev = result.rev;
      for (const { done } of batch) done();
    }
    this.busy = false;
  }
}

async function run({ name, committers, streams, messages }: Case): Promise<void> {
  const dir = mkdtempSync(join(process.env.BENCH_DIR ?? tmpdir(), "sluice-micro-"));
  const engine = await openDisk({ dir, world: realWorld() });
  const writers = Array.from({ length: streams }, (_, i) => new Writer(engine, entity("p", "stream", `s${i}`)));
  const times: number[] = [];
  const startCpu = process.cpuUsage();
  const startMain = mainThreadMicros();
  const start = performance.now();
  const until = start + SECONDS * 1_000;
  let maxLag = 0;
  const commit = async (k: number): Promise<void> => {
    for (let i = k; performance.now() < until; i += committers) {
      const sent = performance.now();
      const at = Date.now();
      await writers[i % streams]!.append(Array.from({ length: messages }, () => ({ payload: PAYLOAD, at })));
      times.push(performance.now() - sent);
      const { lagBytes } = engine as Engine & { lagBytes: number };
      if (lagBytes > maxLag) maxLag = lagBytes;
    }
  };
  await Promise.all(Array.from({ length: committers }, (_, k) => commit(k)));
  const seconds = (performance.now() - start) / 1_000;
  const cpu = process.cpuUsage(startCpu);
  const main = mainThreadMicros() - startMain;
  const closing = performance.now();
  await engine.close();
  times.sort((a, b) => a - b);
  const quantile = (q: number): string => `${times[Math.floor(times.length * q)]!.toFixed(2)} ms`;
  const perSecond = (count: number): string => Math.round(count / seconds).toLocaleString("en");
  console.log(
    [
      name.padEnd(42),
      `${perSecond(times.length)} appends/s`,
      `${perSecond(times.length * messages)} messages/s`,
      `p50 ${quantile(0.5)}`,
      `p99 ${quantile(0.99)}`,
      `lag ${(maxLag / 1024 / 1024).toFixed(1)} MiB, drained in ${Math.round(performance.now() - closing)} ms`,
      `cpu ${Math.round((cpu.user + cpu.system) / 10_000 / seconds)} %, main thread ${(main / times.length).toFixed(1)} us/append`,
    ].join("  "),
  );
  rmSync(dir, { recursive: true, force: true });
}

const only = process.argv[3];
for (const one of CASES) if (only === undefined || one.name.includes(only)) await run(one);
