/**
 * Compressed requests: how much they may expand to, how many expand at a time, and their bytes. The calls of a gRPC server share one
 * `Inflations`.
 *
 * Invariants: a request expands to at most the limit of its method. At most `AT_A_TIME` requests expand at once, because a few
 * kilobytes may become the largest request, before their caller is identified.
 */
import { promisify } from "node:util";
import { gunzip, inflate } from "node:zlib";
import { Refusal } from "../../core/refusal.ts";

const AT_A_TIME = 2;
/** Deflate makes at most this many bytes of one. */
const MAX_RATIO = 1_032;

type Decompress = (bytes: Buffer, options: { readonly maxOutputLength: number }) => Promise<Buffer>;
const DECOMPRESSORS: ReadonlyMap<string, Decompress> = new Map([
  ["gzip", promisify(gunzip) as Decompress],
  ["deflate", promisify(inflate) as Decompress],
]);

export class Inflations {
  private running = 0;
  private readonly waiting: (() => void)[] = [];

  /** Runs the task when it is its turn. */
  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.running < AT_A_TIME) this.running++;
    else await new Promise<void>((resolve) => this.waiting.push(resolve));
    try {
      return await task();
    } finally {
      // The next task takes over the place of this one.
      const next = this.waiting.shift();
      if (next === undefined) this.running--;
      else next();
    }
  }
}

/** The bytes that a request may expand to. */
export function mostInflated(bytes: Buffer, maxBytes: number): number {
  return Math.min(maxBytes, bytes.length * MAX_RATIO);
}

export async function inflated(encoding: string, bytes: Buffer, maxBytes: number): Promise<Buffer> {
  const decompress = DECOMPRESSORS.get(encoding);
  if (decompress === undefined) throw new Refusal("bad-request", `the encoding ${encoding} is not known`);
  const plain = await decompress(bytes, { maxOutputLength: maxBytes }).catch(() => undefined);
  if (plain !== undefined) return plain;
  throw new Refusal("bad-request", `the request is not ${encoding}, or has more than ${maxBytes} bytes`);
}
