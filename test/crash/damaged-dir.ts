/** Directories to damage: a real engine writes them, and a copy taken while it runs equals the remains of a crash. */
import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Engine, EngineError, type Entity, entity } from "../../packages/server/src/engine/contract.ts";
import type { Limits } from "../../packages/server/src/engine/disk/defaults.ts";
import { openWith } from "../../packages/server/src/engine/disk/open.ts";
import { inlinePorts, temporaryDir } from "../support/disk.ts";
import { manualWorld } from "../support/world.ts";

export const STREAM: Entity = entity("p", "stream", "orders");
export const SMALL: Partial<Limits> = { segmentBytes: 8_192 };

/** Opens on this thread; the applier waits until the clock moves. */
export function openAt(dir: string, world = manualWorld(7), limits = SMALL): Promise<Engine> {
  return openWith({ dir, world, limits }, inlinePorts());
}

export const payload = (n: number): string => `message ${n} ${"-".repeat(n % 50)}`;

/** Each message is a commit, and so a frame, of its own. */
export async function writeMessages(engine: Engine, from: number, to: number): Promise<void> {
  let { rev } = await engine.load(STREAM, []);
  for (let n = from; n <= to; n++) {
    const result = await engine.commit(STREAM, { rev }, [
      ...(rev === 0 ? [{ op: "begin", generation: 1, at: { generation: 1, seq: 0 } } as const] : []),
      { op: "append", messages: [{ payload: Buffer.from(payload(n)), at: n }] },
      { op: "put", table: "t", key: "total", value: Buffer.from(String(n)) },
    ]);
    if (result.kind !== "done") throw new Error(result.kind);
    rev = result.rev;
  }
}

/** The number of messages; throws if they differ from the written ones, or if the row disagrees. */
export async function countMessages(engine: Engine): Promise<number> {
  const { rows } = await engine.load(STREAM, [{ table: "t", key: "total" }]);
  const { messages } = await engine.read(STREAM, { generation: 0, seq: 0 }, 1 << 30);
  for (const [i, message] of messages.entries()) {
    if (Buffer.from(message.payload).toString() !== payload(i + 1)) throw new Error(`message ${i + 1} is another`);
  }
  if (Number(Buffer.from(rows[0] ?? "0").toString()) !== messages.length) throw new Error("the row does not agree");
  return messages.length;
}

export function copyOf(dir: string): { readonly dir: string; remove(): void } {
  const copy = temporaryDir();
  cpSync(dir, copy.dir, { recursive: true, filter: (path) => !path.endsWith(".sock") && !path.endsWith("-lock") });
  return copy;
}

/** The segments of the journal, in order. */
export function segmentPaths(dir: string): string[] {
  return readdirSync(join(dir, "journal"))
    .filter((name) => name.endsWith(".seg"))
    .sort()
    .map((name) => join(dir, "journal", name));
}

/** The starts of a segment's frames; the frame magic does not occur in the tests' payloads. */
export function framesIn(segment: string): number[] {
  const bytes = readFileSync(segment);
  const starts: number[] = [];
  for (let at = bytes.indexOf("JFRM"); at !== -1; at = bytes.indexOf("JFRM", at + 1)) starts.push(at);
  return starts;
}

export function change(path: string, edit: (bytes: Buffer) => void): void {
  const bytes = readFileSync(path);
  edit(bytes);
  writeFileSync(path, bytes);
}

export const flip = (path: string, at: number, bit = 0): void =>
  change(path, (bytes) => {
    bytes[at]! ^= 1 << bit;
  });

/** Opens a directory and returns the number of messages, or the error. */
export async function outcome(dir: string): Promise<number | EngineError> {
  try {
    const engine = await openAt(dir);
    try {
      return await countMessages(engine);
    } finally {
      await engine.close();
    }
  } catch (fault) {
    if (fault instanceof EngineError) return fault;
    throw fault;
  }
}
