/**
 * Reads the journal of an earlier process and applies the commits that the store lacks. `openDisk` runs it before the engine
 * reads or writes anything.
 *
 * Invariants: frames count only while each follows its predecessor. If the chain breaks and a later frame is valid, a once valid
 * frame is damaged, and opening is refused with the place. If no valid frame follows, the rest was never acknowledged (or is an
 * old use of the file) and is ignored. The exception is a last frame that is whole except for one flipped bit: that is damage
 * too.
 */
import { EngineError } from "../contract.ts";
import type { Applier, Commits } from "./applier.ts";
import { DEFAULT_LIMITS } from "./defaults.ts";
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
import { segmentName, segmentNumbers } from "./segments.ts";
import { claimToFollow, type TornTail } from "./torn-tail.ts";

export interface OldSegment {
  readonly number: number;
  readonly size: number;
}

export interface Recovered {
  /** All of them can be recycled. */
  readonly old: OldSegment[];
  /** The torn end that recovery ignored. */
  readonly torn: TornTail | undefined;
}

/** Applies the commits that the store lacks. */
export async function recover(
  files: Files,
  dir: string,
  applier: Pick<Applier, "apply">,
  appliedThrough: number,
  transactionBytes = DEFAULT_LIMITS.transactionBytes,
): Promise<Recovered> {
  const numbers = await segmentNumbers(files, dir);
  const replay = new Replay(dir, applier, appliedThrough, transactionBytes);
  const old: OldSegment[] = [];
  for (const number of numbers) {
    const bytes = await readWhole(files, `${dir}/${segmentName(number)}`);
    replay.segment(number, bytes);
    old.push({ number, size: bytes.length });
  }
  replay.finish();
  return { old, torn: replay.torn };
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
  private waiting: Commits[] = [];
  private waitingBytes = 0;

  constructor(
    private readonly dir: string,
    private readonly applier: Pick<Applier, "apply">,
    private through: number,
    private readonly transactionBytes: number,
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
    this.previous = frame.checksum;
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
    this.take({ firstLsn: frame.firstLsn, count: frame.count, payload: bytes.subarray(frame.start, frame.end) });
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

  private take(commits: Commits): void {
    this.waiting.push(commits);
    this.waitingBytes += commits.payload.length;
    if (this.waitingBytes >= this.transactionBytes) this.flush();
  }

  private flush(): void {
    if (this.waiting.length > 0) this.applier.apply(this.waiting);
    this.waiting = [];
    this.waitingBytes = 0;
  }

  finish(): void {
    if (this.badHeader !== undefined) throw this.damaged(this.badHeader, "headers are flushed before they are used");
    if (this.flipped !== undefined)
      throw this.damaged(this.flipped, "the frame there was written to its end and may have been acknowledged");
    this.flush();
  }
}
