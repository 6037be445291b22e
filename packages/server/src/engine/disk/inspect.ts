/**
 * Looks at a data directory without changing it: format, journal, store. `sluice doctor` calls it while it holds the lock. It
 * judges with the code that opens a directory (`recover`, `unseal`), so that both always agree; only the torn tail, which
 * opening passes over in silence, is found here.
 *
 * What must stay true: `cutTornTail` is the only function that writes, and it writes zeroes over a frame that was never
 * acknowledged, nowhere else.
 */
import { EngineError } from "../contract.ts";
import { type Files, readWhole } from "./files.ts";
import { judgeFormat } from "./format.ts";
import {
  chainSeed,
  claimedBytes,
  decodeFrame,
  decodeSegmentHeader,
  FRAME_HEADER_BYTES,
  findFrame,
  SEGMENT_HEADER_BYTES,
} from "./frame.ts";
import { readMeta } from "./meta.ts";
import { recover } from "./recovery.ts";
import { unseal } from "./sealed.ts";
import { segmentName, segmentNumbers } from "./segments.ts";
import type { Reading } from "./store.ts";

export interface JournalReport {
  readonly segments: number;
  readonly frames: number;
  /** The greatest number of a commit that a frame proves, or 0. */
  readonly lastCommit: number;
  /** Commits that the next start would bring into the store. */
  readonly unapplied: number;
  readonly torn: TornTail | undefined;
}

/** A frame that was being written when the process or the machine died. */
export interface TornTail {
  readonly path: string;
  readonly from: number;
  readonly to: number;
}

export async function inspectFormat(files: Files, dir: string): Promise<void> {
  judgeFormat(dir, (await readWhole(files, `${dir}/format`)).toString("latin1"));
}

/** Throws an EngineError with the place of the damage, exactly where opening would. */
export async function inspectJournal(files: Files, dir: string, appliedThrough: number): Promise<JournalReport> {
  let unapplied = 0;
  const counting = {
    apply(frames: readonly { readonly count: number }[]): number {
      for (const { count } of frames) unapplied += count;
      return 0;
    },
  };
  await recover(files, dir, counting, appliedThrough);
  const walk = new Walk(appliedThrough + 1);
  const numbers = await segmentNumbers(files, dir);
  for (const number of numbers) {
    const path = `${dir}/${segmentName(number)}`;
    walk.segment(path, await readWhole(files, path));
  }
  const { frames, lastCommit, torn } = walk;
  return { segments: numbers.length, frames, lastCommit, unapplied, torn };
}

/** Follows the chain of frames through the segments. */
class Walk {
  frames = 0;
  lastCommit = 0;
  torn: TornTail | undefined;
  private previous = 0;

  constructor(private nextCommit: number) {}

  segment(path: string, bytes: Buffer): void {
    const header = decodeSegmentHeader(bytes);
    if (header === undefined) return;
    if (header.chainStart) this.previous = chainSeed(header);
    let end = SEGMENT_HEADER_BYTES;
    for (let at: number | undefined = end; at !== undefined && at < bytes.length; ) {
      const frame = decodeFrame(bytes, at, header.salt);
      if (frame === undefined) {
        at = findFrame(bytes, at + 8, header.salt);
        continue;
      }
      this.frames++;
      this.previous = frame.checksum;
      this.lastCommit = Math.max(this.lastCommit, frame.firstLsn + frame.count - 1);
      this.nextCommit = Math.max(this.nextCommit, frame.firstLsn + frame.count);
      this.torn = undefined;
      end = frame.next;
      at = end;
    }
    if (this.isTornAt(bytes, end)) {
      const to = Math.min(bytes.length, end + Math.max(FRAME_HEADER_BYTES, claimedBytes(bytes, end)));
      this.torn = { path, from: end, to };
    }
  }

  /** What names itself the next frame of the chain and is not whole. Anything else here is the rest of an earlier use. */
  private isTornAt(bytes: Buffer, at: number): boolean {
    const rest = bytes.subarray(at, at + FRAME_HEADER_BYTES);
    if (rest.length < FRAME_HEADER_BYTES) return rest.some((byte) => byte !== 0);
    if (claimedBytes(bytes, at) === 0) return false;
    return rest.readDoubleLE(8) === this.nextCommit && rest.readUInt32LE(20) === this.previous;
  }
}

/** Overwrites the torn frame with zeroes. */
export async function cutTornTail(files: Files, { path, from, to }: TornTail): Promise<void> {
  const file = await files.open(path, "write");
  try {
    await file.write(Buffer.alloc(to - from), from);
    await file.sync();
  } finally {
    await file.close();
  }
}

export interface StoreReport {
  readonly rows: number;
  readonly bytes: number;
  readonly appliedThrough: number;
  /** How often the directory was opened by a server. */
  readonly boots: number;
  /** What is wrong, at most `MAX_DAMAGES`. */
  readonly damages: readonly string[];
}

const MAX_DAMAGES = 20;
const FIRST_KEY = Buffer.from([0]);
const LAST_KEY = Buffer.from([0xff]);

/** Reads every row and checks it against its checksum. */
export function inspectStore(store: Reading): StoreReport {
  const damages: string[] = [];
  let rows = 0;
  let bytes = 0;
  const { appliedThrough, boots } = readMeta(store);
  store.scan(FIRST_KEY, LAST_KEY, (key, value) => {
    rows++;
    bytes += key.length + value.length;
    try {
      unseal(key, value, () => `row ${rows}`);
    } catch (fault) {
      if (!(fault instanceof EngineError)) throw fault;
      damages.push(fault.message);
    }
    return damages.length < MAX_DAMAGES;
  });
  return { rows, bytes, appliedThrough, boots, damages };
}
