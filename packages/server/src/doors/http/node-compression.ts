/**
 * Compresses the large answers that may be compressed, when their client asks for it. The door calls it before it sends an
 * answer.
 *
 * Invariants: the work is done off the event loop, by at most `compressions` threads of Node's pool, because the disk engine
 * flushes with the same threads. An answer that finds no thread or no memory goes out as it is. A compressed answer has a weak
 * ETag, because its bytes are not those of the plain one.
 */
import { promisify } from "node:util";
import zlib from "node:zlib";
import { header } from "@sluice/protocol";
import type { Headers, HttpRequest, Reply } from "../../core/http.ts";
import type { MemoryBudget } from "../memory-budget.ts";
import { acceptedEncoding, type Encoding } from "./accepted-encoding.ts";
import type { HttpLimits } from "./defaults.ts";
import { lengthOf } from "./response-headers.ts";

type Compress = (body: Uint8Array | string) => Promise<Uint8Array>;

/** Fast rather than small: an answer should not wait long for its compression. */
const GZIP_LEVEL = 3;
const COMPRESSIBLE = /^(text\/|image\/svg|application\/([^;]*\+)?(json|xml|javascript|x-ndjson)\b)/i;

/** Node has zstd since 22.15. */
const { zstdCompress } = zlib as { zstdCompress?: (body: Uint8Array | string, done: zlib.CompressCallback) => void };

const gzip: Compress = (body) =>
  promisify<zlib.InputType, zlib.ZlibOptions, Buffer>(zlib.gzip)(body, { level: GZIP_LEVEL });
const COMPRESS: Readonly<Partial<Record<Encoding, Compress>>> = {
  ...(zstdCompress && { zstd: promisify(zstdCompress) as Compress }),
  gzip,
};
const OFFER = Object.keys(COMPRESS) as Encoding[];

export class Compressor {
  private running = 0;

  constructor(
    private readonly limits: Pick<HttpLimits, "compress" | "compressBytes" | "compressions">,
    private readonly memory: MemoryBudget,
  ) {}

  /** The encoding for an answer, or undefined if it goes out as it is. */
  choose({ status, body, headers }: Reply, request: Pick<HttpRequest, "header">): Encoding | undefined {
    const { compress, compressBytes, compressions } = this.limits;
    if (!compress || status !== 200 || body === undefined || body.length < compressBytes) return undefined;
    const accept = request.header("accept-encoding");
    if (accept === undefined || this.running >= compressions) return undefined;
    return COMPRESSIBLE.test(headerOf(headers, header.contentType) ?? "") ? acceptedEncoding(accept, OFFER) : undefined;
  }

  /** Never rejects: an answer that cannot be compressed, or gets no smaller, goes out as it is. */
  async compress(reply: Reply, encoding: Encoding): Promise<Reply> {
    const body = reply.body!;
    const bytes = lengthOf(body);
    if (!this.memory.take(bytes)) return reply;
    this.running++;
    try {
      const smaller = await COMPRESS[encoding]!(body);
      if (smaller.length >= bytes) return reply;
      const headers = reply.headers.map((value, i) => (isEtag(reply.headers, i) ? `W/${value}` : value));
      headers.push("Content-Encoding", encoding);
      return { ...reply, headers, body: smaller };
    } catch {
      return reply;
    } finally {
      this.running--;
      this.memory.give(bytes);
    }
  }
}

function headerOf(headers: Headers, name: string): string | undefined {
  const at = headers.indexOf(name);
  return at < 0 ? undefined : headers[at + 1];
}

/** Whether a strong ETag stands at this place. */
function isEtag(headers: Headers, i: number): boolean {
  return i % 2 === 1 && headers[i - 1] === header.etag && !headers[i]!.startsWith("W/");
}
