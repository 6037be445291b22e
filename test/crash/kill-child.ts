/**
 * A server process that will be killed: it checks the data of the processes before it, then appends to many streams until its
 * death. It writes every line out before its next step, so the parent knows what was acknowledged.
 *
 *   found <stream> <n>   messages 1 to n are there in order, and the row agrees
 *   ready
 *   try <stream> <n>     a commit that ends at message n is in flight
 *   done <stream> <n>    it was acknowledged
 *   wrong <text>         an invariant is violated
 */
import { writeSync } from "node:fs";
import { type Engine, type Entity, entity } from "../../packages/server/src/engine/contract.ts";
import { openDisk } from "../../packages/server/src/engine/disk/open.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";

const [dir, streams, mode] = process.argv.slice(2) as [string, string, "write" | "check"];
const TABLE = "producer";
/** How many of the last messages a process checks; the last process checks all. */
const GLANCE = 200;

const pause = new Int32Array(new SharedArrayBuffer(4));

function say(line: string): void {
  for (;;) {
    try {
      writeSync(1, `${line}\n`);
      return;
    } catch (fault) {
      // The pipe is full; the line must be out before the next step.
      if ((fault as { code?: string }).code !== "EAGAIN") throw fault;
      Atomics.wait(pause, 0, 0, 1);
    }
  }
}

async function total(engine: Engine, e: Entity): Promise<number> {
  const [value] = (await engine.load(e, [{ table: TABLE, key: "total" }])).rows;
  return value === undefined ? 0 : Number(Buffer.from(value).toString());
}

/** Each message carries its number, and the row, written in the same commits, carries their count. */
async function check(engine: Engine, i: number, e: Entity): Promise<number> {
  const count = await total(engine, e);
  const { head } = await engine.load(e, []);
  if (head.last.seq !== count) say(`wrong stream ${i} ends at ${head.last.seq}, its row says ${count}`);
  let next = mode === "check" ? 1 : Math.max(1, count - GLANCE);
  while (next <= count) {
    const page = await engine.read(e, { generation: head.generation, seq: next - 1 }, 100_000);
    for (const { payload, position } of page.messages) {
      const text = Buffer.from(payload).toString();
      if (position.seq !== next || !text.startsWith(`${i}:${next}:`)) {
        say(`wrong stream ${i} has ${text.slice(0, 20)} as ${position.seq} where ${next} should be`);
        return count;
      }
      next++;
    }
    if (page.messages.length === 0) say(`wrong stream ${i} ends before ${next}`);
    if (page.messages.length === 0) return count;
  }
  return count;
}

async function write(engine: Engine, i: number, e: Entity, from: number): Promise<void> {
  let { rev } = await engine.load(e, []);
  for (let count = from; ; ) {
    const more = 1 + Math.floor(Math.random() ** 4 * 60);
    const messages = Array.from({ length: more }, (_, k) => ({
      payload: Buffer.from(`${i}:${count + k + 1}:${"x".repeat(Math.floor(Math.random() * 300))}`),
      at: Date.now(),
    }));
    count += more;
    say(`try ${i} ${count}`);
    const result = await engine.commit(e, { rev }, [
      ...(rev === 0 ? [{ op: "begin", generation: 1, at: { generation: 1, seq: 0 } } as const] : []),
      { op: "append", messages },
      { op: "put", table: TABLE, key: "total", value: Buffer.from(String(count)) },
    ]);
    if (result.kind !== "done") return say(`wrong stream ${i} was answered ${result.kind}`);
    say(`done ${i} ${count}`);
    rev = result.rev;
    if (Math.random() < 0.3) await new Promise((wake) => setTimeout(wake, Math.random() * 10));
  }
}

try {
  const limits = {
    segmentBytes: 1 << 19,
    lagBytes: 1 << 21,
    applyBytes: 1 << 16,
    applyAfterMs: 10,
    applyWithinMs: 10,
    tailBytes: 1 << 18,
    keptStates: 2,
  };
  const engine = await openDisk({ dir, world: realWorld(), limits });
  const entities = Array.from({ length: Number(streams) }, (_, i) => entity("p", "stream", `s${i}`));
  const counts: number[] = [];
  for (const [i, e] of entities.entries()) {
    counts.push(await check(engine, i, e));
    say(`found ${i} ${counts[i]}`);
  }
  say("ready");
  if (mode === "check") await engine.close();
  else await Promise.all(entities.map((e, i) => write(engine, i, e, counts[i]!)));
} catch (fault) {
  say(`wrong ${(fault as Error).stack?.replaceAll("\n", " | ")}`);
}
