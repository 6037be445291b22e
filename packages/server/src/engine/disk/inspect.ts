/**
 * Inspects a data directory without changing it: format, journal, store. `sluice doctor` calls it while it holds the lock. It
 * uses the code that opens a directory (`recover`, `verifyStore`), so both always agree. Only this code reports damage to journal
 * frames that the store already has, because opening does not need them.
 *
 * Invariants: only `cutTornTail` writes, and it writes zeroes only over bytes that opening ignores.
 */
import { type Files, readWhole } from "./files.ts";
import { judgeFormat } from "./format.ts";
import {
  chainSeed,
  decodeFrame,
  decodeSegmentHeader,
  FRAME_HEADER_BYTES,
  findFrame,
  SEGMENT_HEADER_BYTES,
} from "./frame.ts";
import { decodeMeta } from "./meta.ts";
import { lostStore } from "./open-store.ts";
import { recover } from "./recovery.ts";
import { segmentName, segmentNumbers } from "./segments.ts";
import { claimToFollow, type TornTail } from "./torn-tail.ts";
import { verifyStore } from "./verify/verify-store.ts";

export interface JournalReport {
  readonly segments: number;
  readonly frames: number;
  /** The greatest commit number in a valid frame, or 0. */
  readonly lastCommit: number;
  /** Commits that the store lacks and the next start would read from the journal. */
  readonly unapplied: number;
  readonly torn: TornTail | undefined;
  /** Damaged places, as text, whose commits the store has. */
  readonly stored: readonly string[];
}

export async function inspectFormat(files: Files, dir: string): Promise<void> {
  judgeFormat(dir, (await readWhole(files, `${dir}/format`)).toString("latin1"));
}

/** Throws an EngineError with the place of the damage, exactly where opening would. */
export async function inspectJournal(files: Files, dir: string, appliedThrough: number): Promise<JournalReport> {
  const { torn, owed } = await recover(files, dir, appliedThrough);
  const unapplied = owed.reduce((sum, { count }) => sum + count, 0);
  const walk = new Walk(appliedThrough);
  const numbers = await segmentNumbers(files, dir);
  for (const number of numbers) {
    const path = `${dir}/${segmentName(number)}`;
    walk.segment(path, number, await readWhole(files, path));
  }
  walk.finish();
  const { frames, lastCommit, damages: stored } = walk;
  return { segments: numbers.length, frames, lastCommit, unapplied, torn, stored };
}

/** Follows the chain of frames through segments that `recover` accepts, so the store has the commits of every damaged place. */
class Walk {
  frames = 0;
  lastCommit = 0;
  readonly damages: string[] = [];
  /** The checksum of the frame before, if known. */
  private previous: number | undefined;
  private number = 0;
  /** The end of the frames in the segment before, and whether the bytes there claim to be one more frame. */
  private end = { place: "", isDamaged: false };

  constructor(private readonly appliedThrough: number) {}

  segment(path: string, number: number, bytes: Buffer): void {
    const header = decodeSegmentHeader(bytes);
    const goesOn = header !== undefined && !header.chainStart && number === this.number + 1;
    this.number = number;
    // Where another process's journal begins, the previous one may have ended in the middle of a write.
    if (!goesOn) this.end = { place: "", isDamaged: false };
    if (!goesOn) this.previous = header?.chainStart ? chainSeed(header) : undefined;
    if (header === undefined) this.damages.push(`the header of ${path}`);
    else this.walk(path, bytes, header.salt);
  }

  private walk(path: string, bytes: Buffer, salt: number): void {
    let at: number | undefined = SEGMENT_HEADER_BYTES;
    let end = at;
    while (at !== undefined && at < bytes.length) {
      const frame = decodeFrame(bytes, at, salt);
      if (frame === undefined) {
        at = findFrame(bytes, at + 8, salt);
        if (at === undefined) break;
        this.damages.push(`${path} at byte ${end}`);
        this.previous = undefined;
        continue;
      }
      if (this.previous !== undefined && frame.previous !== this.previous) this.damages.push(this.end.place);
      this.frames++;
      this.previous = frame.checksum;
      this.end.isDamaged = false;
      this.lastCommit = Math.max(this.lastCommit, frame.firstLsn + frame.count - 1);
      end = frame.next;
      at = end;
    }
    if (!this.end.isDamaged) this.end = { place: `${path} at byte ${end}`, isDamaged: this.isStoredFrame(bytes, end) };
  }

  private isStoredFrame(bytes: Buffer, at: number): boolean {
    if (at + FRAME_HEADER_BYTES > bytes.length) return false;
    const next = this.lastCommit + 1;
    // Before the first frame nothing tells which commit is next, and a recycled file begins with an old one.
    return this.frames > 0 && next <= this.appliedThrough && claimToFollow(bytes, at, this.previous, next) > 0;
  }

  finish(): void {
    if (this.end.isDamaged) this.damages.push(this.end.place);
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
  /** The number of times that a server opened the directory. */
  readonly boots: number;
  /** The damages found, at most `MAX_TOLD`. */
  readonly damages: readonly string[];
}

/** Reads all of the store, without LMDB. Throws an EngineError with the place if damage prevents further reading. */
export async function inspectStore(files: Files, path: string, wasUsed: boolean): Promise<StoreReport> {
  const damages: string[] = [];
  const found = await verifyStore(files, path, ({ explanation }) => {
    damages.push(explanation);
  });
  if (wasUsed && found?.meta === undefined && damages.length === 0) throw lostStore(path, found === undefined);
  const { appliedThrough, boots } = decodeMeta(found?.meta);
  return { rows: found?.rows ?? 0, bytes: found?.bytes ?? 0, appliedThrough, boots, damages };
}
