/**
 * Chunks: consecutive messages of a stream in one value of the store, up to one page, larger only for a larger message. The
 * applier builds them, the log reader walks them. The key holds the number of the first message.
 *
 *   0  u32  number of messages
 *   4       the records (record.ts), one behind the other
 *
 * Invariants: part of the format; a chunk holds consecutive messages of one generation.
 */
import { CHUNK_BYTES, MERGE_FACTOR } from "./defaults.ts";
import { recordLength } from "./record.ts";
import { SEAL_BYTES } from "./sealed.ts";

const COUNT_BYTES = 4;

export const chunkCount = (chunk: Buffer): number => chunk.readUInt32LE(0);
export const chunkRecords = (chunk: Buffer): Buffer => chunk.subarray(COUNT_BYTES);

/** Consecutive messages without a hole, in one piece per commit. */
export interface Run {
  readonly generation: number;
  readonly firstSeq: number;
  count: number;
  bytes: number;
  readonly parts: Part[];
}

export interface Part {
  readonly records: Buffer;
  readonly count: number;
}

/** A chunk that is still to be built. */
export interface Chunk {
  readonly firstSeq: number;
  readonly count: number;
  /** The bytes of its records. */
  readonly bytes: number;
  readonly parts: readonly Part[];
}

/** The bytes of the chunk's value with its seal. */
export const valueBytes = ({ bytes }: Chunk): number => SEAL_BYTES + COUNT_BYTES + bytes;

/** Builds the chunk's value, with room for the seal. */
export function writeValue(into: Buffer, { count, parts }: Chunk): Buffer {
  into.writeUInt32LE(count, SEAL_BYTES);
  let at = SEAL_BYTES + COUNT_BYTES;
  for (const { records } of parts) at += records.copy(into, at);
  return into;
}

/**
 * Whether a piece joins the last chunk. Small pieces join a small chunk, so that a trickle rewrites each byte a bounded number of
 * times.
 */
export function joins(lastBytes: number, pieceBytes: number): boolean {
  return lastBytes < MERGE_FACTOR * pieceBytes && lastBytes + pieceBytes <= CHUNK_BYTES;
}

/** Cuts a run into chunks at message borders. */
export function cutRun(run: Run): Chunk[] {
  const chunks: Chunk[] = [];
  let open: Part[] = [];
  let openBytes = 0;
  let openCount = 0;
  let firstSeq = run.firstSeq;
  const close = (): void => {
    if (openCount === 0) return;
    chunks.push({ firstSeq, count: openCount, bytes: openBytes, parts: open });
    firstSeq += openCount;
    open = [];
    openBytes = 0;
    openCount = 0;
  };
  for (const part of run.parts) {
    for (const piece of fit(part, CHUNK_BYTES - openBytes)) {
      if (openBytes + piece.records.length > CHUNK_BYTES) close();
      open.push(piece);
      openBytes += piece.records.length;
      openCount += piece.count;
    }
  }
  close();
  return chunks;
}

/** Returns the part itself if it fits. Otherwise splits it: a first piece that fits the room, then pieces of at most a chunk. */
function fit(part: Part, room: number): Part[] {
  if (part.records.length <= room || part.count === 1) return [part];
  const pieces: Part[] = [];
  let limit = room;
  let start = 0;
  let at = 0;
  let count = 0;
  for (let i = 0; i < part.count; i++) {
    const length = recordLength(part.records, at);
    if (count > 0 && at + length - start > limit) {
      pieces.push({ records: part.records.subarray(start, at), count });
      start = at;
      count = 0;
      limit = CHUNK_BYTES;
    }
    at += length;
    count++;
  }
  pieces.push({ records: part.records.subarray(start, at), count });
  return pieces;
}
