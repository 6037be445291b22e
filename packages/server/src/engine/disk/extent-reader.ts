/**
 * Reads durable extents of the journal, in slices of whole frames that make one transaction each. The apply worker uses it.
 *
 * Invariants: an invalid frame is damage, because every frame in an extent was flushed.
 */
import { EngineError } from "../contract.ts";
import type { Commits } from "./applier.ts";
import { type ApplyLimits, DEFAULT_LIMITS } from "./defaults.ts";
import type { File, Files } from "./files.ts";
import { claimedBytes, decodeFrame, decodeSegmentHeader, FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES } from "./frame.ts";
import type { Extent } from "./journal.ts";
import { segmentName } from "./segments.ts";

export interface Slice {
  readonly frames: readonly Commits[];
  readonly segment: number;
  readonly to: number;
  readonly bytes: number;
}

export class ExtentReader {
  private file: File | undefined;
  private number = 0;
  private salt = 0;
  private buffer = Buffer.alloc(0);

  constructor(
    private readonly files: Files,
    private readonly dir: string,
    private readonly limits: ApplyLimits = DEFAULT_LIMITS,
  ) {}

  /** The frames from the start of an extent that make one slice. The next call overwrites the bytes. */
  async read(extent: Extent): Promise<Slice> {
    const file = await this.openSegment(extent.segment);
    const wanted = Math.min(extent.to - extent.from, this.limits.transactionBytes);
    let bytes = await this.fill(file, extent, wanted);
    const first = claimedBytes(bytes, 0);
    if (first > bytes.length && first <= extent.to - extent.from) bytes = await this.fill(file, extent, first);
    return this.cut(extent, bytes);
  }

  private async fill(file: File, extent: Extent, count: number): Promise<Buffer> {
    if (this.buffer.length < count || this.buffer.length > 2 * this.limits.transactionBytes)
      this.buffer = Buffer.allocUnsafeSlow(count);
    const into = this.buffer.subarray(0, count);
    const got = await file.read(into, extent.from);
    if (got < count) throw this.damaged(extent.segment, extent.from + got);
    return into;
  }

  private cut(extent: Extent, bytes: Buffer): Slice {
    const frames: Commits[] = [];
    let at = 0;
    while (at < bytes.length) {
      // The slice may end inside its last frame, even inside the header; that frame starts the next slice.
      const left = bytes.length - at;
      if (frames.length > 0 && (left < FRAME_HEADER_BYTES || claimedBytes(bytes, at) > left)) break;
      const frame = decodeFrame(bytes, at, this.salt);
      if (frame === undefined) throw this.damaged(extent.segment, extent.from + at);
      frames.push({ firstLsn: frame.firstLsn, count: frame.count, payload: bytes.subarray(frame.start, frame.end) });
      at = frame.next;
    }
    return { frames, segment: extent.segment, to: extent.from + at, bytes: at };
  }

  private async openSegment(number: number): Promise<File> {
    if (this.file !== undefined && this.number === number) return this.file;
    await this.close();
    const file = await this.files.open(`${this.dir}/${segmentName(number)}`, "read");
    const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES);
    await file.read(bytes, 0);
    const header = decodeSegmentHeader(bytes);
    if (header?.number !== number) {
      await file.close();
      throw this.damaged(number, 0);
    }
    this.file = file;
    this.number = number;
    this.salt = header.salt;
    return file;
  }

  private damaged(segment: number, position: number): EngineError {
    const damaged = (path: string) => `The journal is damaged: ${path} at byte ${position}.`;
    const name = segmentName(segment);
    return new EngineError("data-damaged", damaged(name), damaged(`${this.dir}/${name}`));
  }

  async close(): Promise<void> {
    const file = this.file;
    this.file = undefined;
    await file?.close();
  }
}
