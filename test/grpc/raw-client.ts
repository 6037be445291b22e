/**
 * gRPC by hand, over HTTP/2 of Node: for requests that no generated client would send. A body is the bytes of a message, which `text`
 * and `bytes` make field by field.
 *
 * Invariants: a connection ends with its test.
 */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  type OutgoingHttpHeaders,
  type SecureClientSessionOptions,
} from "node:http2";
import { onTestFinished } from "vitest";
import { within } from "../e2e/server.ts";

export interface Outcome {
  /** Of gRPC; -1 if the stream ended without one. */
  readonly code: number;
  readonly message: string;
  readonly httpStatus: number;
  /** The bytes of the response's messages, with their heads. */
  readonly data: Buffer;
}

export interface RawCall {
  readonly stream: ClientHttp2Stream;
  readonly outcome: Promise<Outcome>;
}

export class RawClient {
  constructor(readonly session: ClientHttp2Session) {}

  static to(port: number, scheme: "http" | "https" = "http", options: SecureClientSessionOptions = {}): RawClient {
    const session = connect(`${scheme}://127.0.0.1:${port}`, options);
    session.on("error", () => {});
    onTestFinished(() => session.destroy());
    return new RawClient(session);
  }

  /** A stream that sends nothing yet. */
  open(method: string, headers: OutgoingHttpHeaders = {}): RawCall {
    const stream = this.session.request({
      ":method": "POST",
      ":path": `/google.pubsub.v1.${method}`,
      "content-type": "application/grpc",
      te: "trailers",
      ...headers,
    });
    return { stream, outcome: outcomeOf(stream) };
  }

  /** Sends one message, and awaits the end of the call. */
  async call(method: string, body: Buffer, headers: OutgoingHttpHeaders = {}, isCompressed = false): Promise<Outcome> {
    const { stream, outcome } = this.open(method, headers);
    stream.end(frame(body, isCompressed));
    return within(20_000, `the end of ${method}`, outcome);
  }
}

function outcomeOf(stream: ClientHttp2Stream): Promise<Outcome> {
  let said: Record<string, unknown> = {};
  const chunks: Buffer[] = [];
  stream.on("response", (headers) => {
    said = { ...said, ...headers };
  });
  stream.on("trailers", (trailers) => {
    said = { ...said, ...trailers };
    stream.close();
  });
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  stream.on("error", () => {});
  return new Promise((resolve) => {
    stream.once("close", () =>
      resolve({
        code: Number(said["grpc-status"] ?? -1),
        message: decodeURIComponent(String(said["grpc-message"] ?? "")),
        httpStatus: Number(said[":status"] ?? 0),
        data: Buffer.concat(chunks),
      }),
    );
  });
}

export function frame(body: Buffer, isCompressed = false): Buffer {
  const head = Buffer.alloc(5);
  head[0] = isCompressed ? 1 : 0;
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}

/** A field of bytes, a text or a message. */
export function bytes(field: number, value: Buffer): Buffer {
  return Buffer.concat([Buffer.from([field * 8 + 2]), varint(value.length), value]);
}

export function text(field: number, value: string): Buffer {
  return bytes(field, Buffer.from(value));
}

export function varint(value: number): Buffer {
  const all: number[] = [];
  let left = value;
  for (; left > 127; left = Math.floor(left / 128)) all.push((left % 128) + 128);
  return Buffer.from([...all, left]);
}
