/**
 * The files of the journal: which exist, which comes next, which can be recycled. The journal takes the next one from here; the
 * applier's reports retire old ones.
 *
 * Invariants: a file gets its final name only after its header (number and salt) and its full size were flushed. So a bad header
 * under a final name is damage, never a crash. A file is recycled only when the store has all of it, and under a name that no
 * crash can confuse.
 */
import type { World } from "../../core/world.ts";
import type { Limits } from "./defaults.ts";
import type { File, Files } from "./files.ts";
import { encodeSegmentHeader, SEGMENT_HEADER_BYTES, type SegmentHeader } from "./frame.ts";

const SUFFIX = ".seg";
const TEMPORARY = "next.tmp";
const ZEROES = Buffer.alloc(1024 * 1024);

export interface Segment {
  readonly header: SegmentHeader;
  /** A write to it is flushed when it returns. */
  readonly file: File;
  size: number;
}

export const segmentName = (number: number): string => `${String(number).padStart(16, "0")}${SUFFIX}`;

/** The numbers of the segments in a directory, ascending. Foreign names are ignored. */
export async function segmentNumbers(files: Files, dir: string): Promise<number[]> {
  const names = await files.names(dir);
  const numbers = names.filter((name) => /^\d{16}\.seg$/.test(name)).map((name) => Number(name.slice(0, 16)));
  return numbers.sort((a, b) => a - b);
}

interface Used {
  readonly number: number;
  readonly size: number;
}

export class Segments {
  /** Segments with commits that the store may lack, oldest first. */
  private readonly used: Used[] = [];
  /** Segments whose commits the store has. */
  private readonly free: Used[] = [];
  private ready: Promise<Segment> | undefined;
  private chores: Promise<void> = Promise.resolve();

  constructor(
    private readonly files: Files,
    readonly dir: string,
    private readonly world: Pick<World, "randomBytes">,
    private readonly limits: Limits,
    private nextNumber: number,
  ) {}

  path(number: number): string {
    return `${this.dir}/${segmentName(number)}`;
  }

  /** Takes over the next file of an earlier process; `retire` tells which of them the store has. */
  adopt(number: number, size: number): void {
    this.used.push({ number, size });
  }

  /** An empty segment with room for a frame of this size. */
  async next(frameBytes: number, chainStart = false): Promise<Segment> {
    const taken = this.ready ?? this.prepare(chainStart);
    this.ready = undefined;
    const segment = await taken;
    const needed = SEGMENT_HEADER_BYTES + frameBytes;
    if (segment.size < needed) {
      try {
        await grow(segment, needed);
      } catch (fault) {
        // It stays the next one, for a frame that fits.
        this.ready = Promise.resolve(segment);
        throw fault;
      }
    }
    this.used.push({ number: segment.header.number, size: segment.size });
    return segment;
  }

  /**
   * Makes the next segment in the background. A failure is ignored here, because the batch that needs the segment retries and
   * reports it.
   */
  prepareAhead(): void {
    if (this.ready !== undefined) return;
    const ready = this.prepare(false);
    this.ready = ready;
    ready.catch(() => {
      if (this.ready === ready) this.ready = undefined;
    });
  }

  /** The store has everything in the segments before this one. */
  retire(before: number): void {
    while (this.used[0] !== undefined && this.used[0].number < before) this.free.push(this.used.shift()!);
    this.chores = this.chores.then(() => this.removeSpare());
  }

  private async removeSpare(): Promise<void> {
    while (this.free.length > this.limits.spareSegments) {
      const { number } = this.free.shift()!;
      // The next process adopts a file that cannot be removed now.
      await this.files.remove(this.path(number)).catch(() => undefined);
    }
  }

  private prepare(chainStart: boolean): Promise<Segment> {
    const prepared = this.chores.then(() => this.make(chainStart));
    this.chores = prepared.then(
      () => undefined,
      () => undefined,
    );
    return prepared;
  }

  private async make(chainStart: boolean): Promise<Segment> {
    const number = this.nextNumber;
    const salt = Buffer.from(this.world.randomBytes(4)).readUInt32LE(0);
    const header = { number, salt, chainStart };
    let file: File | undefined;
    try {
      file = await this.filled(header);
      await this.files.rename(`${this.dir}/${TEMPORARY}`, this.path(number));
      await this.files.syncDir(this.dir);
    } catch (fault) {
      await file?.close().catch(() => undefined);
      // A recycled file whose old name is not durably gone must not be filled by the next attempt.
      await this.files.remove(`${this.dir}/${TEMPORARY}`).catch(() => undefined);
      throw fault;
    }
    this.nextNumber = number + 1;
    return { header, file, size: this.limits.segmentBytes };
  }

  /** The file under the temporary name, with this header and its full size flushed. */
  private async filled(header: SegmentHeader): Promise<File> {
    const spare = await this.openSpare();
    try {
      await fillAndSync(spare, header, this.limits.segmentBytes);
      return await this.files.open(`${this.dir}/${TEMPORARY}`, "durable");
    } finally {
      await spare.close().catch(() => undefined);
    }
  }

  /** A file under the temporary name: an old segment of the usual size, whose blocks are already allocated, or a new file. */
  private async openSpare(): Promise<File> {
    const temporary = `${this.dir}/${TEMPORARY}`;
    const index = this.free.findIndex(({ size }) => size === this.limits.segmentBytes);
    if (index === -1) return this.files.open(temporary, "create");
    const [spare] = this.free.splice(index, 1);
    await this.files.rename(this.path(spare!.number), temporary);
    // The old name must be durably gone before the header changes.
    await this.files.syncDir(this.dir);
    return this.files.open(temporary, "write");
  }

  /** Waits for background work and closes the prepared file. */
  async close(): Promise<void> {
    await this.chores;
    const segment = await this.ready?.catch(() => undefined);
    await segment?.file.close();
  }
}

async function fillAndSync(file: File, header: SegmentHeader, size: number): Promise<void> {
  const allocated = await file.size();
  await writeZeroes(file, allocated, size);
  await file.write(encodeSegmentHeader(header), 0);
  await file.sync();
}

async function writeZeroes(file: File, from: number, to: number): Promise<void> {
  for (let at = from; at < to; at += ZEROES.length) {
    await file.write(ZEROES.subarray(0, Math.min(ZEROES.length, to - at)), at);
  }
}

async function grow(segment: Segment, size: number): Promise<void> {
  await writeZeroes(segment.file, segment.size, size);
  segment.size = size;
}
