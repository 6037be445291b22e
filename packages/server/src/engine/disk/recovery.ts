/**
 * Reads the journal of an earlier process and finds the commits that the store lacks. `openDisk` runs it before the engine reads
 * or writes anything; the engine takes those commits into its overlay, and the applier takes them to the store as usual.
 *
 * Invariants: frames count only while each follows its predecessor. If the chain breaks and a later frame is valid, a once valid
 * frame is damaged, and opening is refused with the place. If no valid frame follows, the rest was never acknowledged (or is an
 * old use of the file) and is ignored. The exception is a last frame that is whole except for one flipped bit: that is damage
 * too.
 */
import { EngineError } from "../contract.ts";
import type { Commits } from "./applier.ts";
import { type Files, readWhole } from "./files.ts";
import { findFlippedBit } from "./flipped-bit.ts";
import {
  chainSeed,
  decodeFrame,
  decodeSegmentHeader,
  type Frame,
  findFrame,
  SEGMENT_HEADER_BYTES,
  type SegmentHeader,
} from "./frame.ts";
import type { Extent } from "./journal.ts";
import { segmentName, segmentNumbers } from "./segments.ts";
import { claimToFollow, type TornTail } from "./torn-tail.ts";

export interface OldSegment {
  readonly number: number;
  readonly size: number;
}

/** A frame that the store lacks, and its place. */
export interface OwedFrame extends Commits, Extent {
  /** The whole frame. */
  readonly bytes: Buffer;
}

export interface Recovered {
  readonly old: OldSegment[];
  /** In the order of their commits. Their bytes are views of whole segments. */
  readonly owed: OwedFrame[];
  /** The segments before this one can be recycled. */
  readonly neededFrom: number;
  /** The torn end that recovery ignored. */
  readonly torn: TornTail | undefined;
}

/** `appliedThrough`: the last commit that the store has. */
export async function recover(files: Files, dir: string, appliedThrough: number): Promise<Recovered> {
  const numbers = await segmentNumbers(files, dir);
  const replay = new Replay(dir, appliedThrough);
  const old: OldSegment[] = [];
  for (const number of numbers) {
    const bytes = await readWhole(files, `${dir}/${segmentName(number)}`);
    replay.segment(number, bytes);
    old.push({ number, size: bytes.length });
  }
  replay.finish();
  const { owed, neededFrom, torn } = replay;
  return { old, owed, neededFrom, torn };
}

/** A suspect place; damage if a valid frame follows. */
interface Doubt {
  readonly number: number;
  readonly position: number;
  readonly what: string;
}

class Replay {
  private doubt: Doubt | undefined;
  /** A bad header is always damage, unless the store already has the segment. */
  private badHeader: Doubt | undefined;
  private previous: number | undefined;
  /**
   * The torn end of this chain, until a valid frame follows. An earlier process's torn end was ignored when the next chain began.
   */
  torn: TornTail | undefined;
  /** A last frame that is whole except for one bit, so no write was cut short there. */
  private flipped: Doubt | undefined;
  readonly owed: OwedFrame[] = [];
  /**
   * The segment of the frame before the first owed one, because the owed one names it. Without that segment, an older one whose
   * removal a power cut undid would seem to come right before.
   */
  neededFrom = Number.POSITIVE_INFINITY;
  /** The segment of the frame before. */
  private previousSegment: number | undefined;

  constructor(
    private readonly dir: string,
    private through: number,
  ) {}

  segment(number: number, bytes: Buffer): void {
    const header = decodeSegmentHeader(bytes);
    if (header === undefined || header.number !== number) {
      this.badHeader ??= { number, position: 0, what: "the header is not valid" };
      this.previous = undefined;
      return;
    }
    if (header.chainStart) {
      this.previous = chainSeed(header);
      this.previousSegment = number;
      this.torn = undefined;
      this.flipped = undefined;
    }
    this.frames(header, bytes);
  }

  private frames(header: SegmentHeader, bytes: Buffer): void {
    let at: number | undefined = SEGMENT_HEADER_BYTES;
    while (at !== undefined && at < bytes.length) {
      const frame = decodeFrame(bytes, at, header.salt);
      if (frame !== undefined) {
        this.frame(header.number, bytes, at, frame);
        at = frame.next;
        continue;
      }
      this.doubt ??= { number: header.number, position: at, what: "a frame is not valid" };
      const torn = claimToFollow(bytes, at, this.previous, this.through + 1);
      if (torn > 0) this.torn = { path: `${this.dir}/${segmentName(header.number)}`, from: at, to: at + torn };
      this.flipped ??= this.flippedFrame(header, bytes, at);
      at = findFrame(bytes, at + 8, header.salt);
    }
  }

  /** The next commits, in a frame that one flipped bit makes invalid. A seal holds no commit, so its loss loses nothing. */
  private flippedFrame({ number, salt }: SegmentHeader, bytes: Buffer, at: number): Doubt | undefined {
    const isNext = (frame: Frame) => frame.previous === this.previous && frame.firstLsn === this.through + 1;
    const found = findFlippedBit(bytes, at, salt, isNext);
    if (found === undefined || found.frame.count === 0) return undefined;
    return { number, position: at, what: `bit ${found.bit} of byte ${found.at} is not what was written` };
  }

  private frame(number: number, bytes: Buffer, at: number, frame: Frame): void {
    const last = frame.firstLsn + frame.count - 1;
    const chained = this.previous === undefined || frame.previous === this.previous;
    const comesAfter = this.previousSegment ?? number;
    this.previous = frame.checksum;
    this.previousSegment = number;
    this.torn = undefined;
    this.flipped = undefined;
    if (last <= this.through && frame.firstLsn <= this.through + 1) {
      // The store has this commit, so every doubt before it is irrelevant.
      this.doubt = undefined;
      this.badHeader = undefined;
      return;
    }
    if (frame.firstLsn !== this.through + 1 || !chained || this.badHeader !== undefined) this.refuse(number, at);
    this.doubt = undefined;
    this.through = last;
    if (this.owed.length === 0) this.neededFrom = comesAfter;
    const { firstLsn, count, start, end, next } = frame;
    const place = { segment: number, from: at, to: next, bytes: bytes.subarray(at, next) };
    this.owed.push({ firstLsn, count, payload: bytes.subarray(start, end), ...place });
  }

  private refuse(number: number, at: number): never {
    const doubt = this.badHeader ??
      this.doubt ?? { number, position: at, what: "commits before this frame are missing" };
    throw this.damaged(doubt, `valid data follows at byte ${at} of ${segmentName(number)}`);
  }

  private damaged({ number, position, what }: Doubt, proof: string): EngineError {
    const place = `${this.dir}/${segmentName(number)}`;
    return new EngineError(
      "data-damaged",
      `The journal is damaged: ${place} at byte ${position}: ${what}, but ${proof}. Commits after ${this.through} are affected.`,
    );
  }

  finish(): void {
    if (this.badHeader !== undefined) throw this.damaged(this.badHeader, "headers are flushed before they are used");
    if (this.flipped !== undefined)
      throw this.damaged(this.flipped, "the frame there was written to its end and may have been acknowledged");
  }
}
