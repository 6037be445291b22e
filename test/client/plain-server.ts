/**
 * A server of the Durable Streams protocol that knows nothing of Sluice: it ignores `format`, refuses without codes, and tells
 * no times. The tests show with it that the client works with every such server.
 *
 * Invariants: it keeps its state in memory for one test. An offset is the number of appended pieces.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

interface PlainStream {
  readonly type: string;
  readonly pieces: Buffer[];
  readonly producers: Map<string, { epoch: number; seq: number }>;
  readonly readers: Set<() => void>;
  closed: boolean;
}

type HeaderBag = Record<string, string>;

export async function openPlainServer(): Promise<{ readonly url: string }> {
  const streams = new Map<string, PlainStream>();
  const server = createServer((request, response) => {
    void bodyOf(request).then((body) => answer(streams, request, response, body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

function answer(streams: Map<string, PlainStream>, request: IncomingMessage, response: ServerResponse, body: Buffer) {
  const { pathname, searchParams: query } = new URL(request.url!, "http://plain");
  const stream = streams.get(pathname);
  const reply = (status: number, headers: HeaderBag = {}, text: string | Buffer = "") =>
    response.writeHead(status, headers).end(text);
  if (request.method === "PUT") {
    if (stream !== undefined) return reply(200, stateOf(stream));
    const type = request.headers["content-type"] ?? "application/octet-stream";
    const made: PlainStream = { type, pieces: [], producers: new Map(), readers: new Set(), closed: false };
    take(made, body, request.headers["stream-closed"] === "true");
    streams.set(pathname, made);
    return reply(201, stateOf(made));
  }
  if (stream === undefined) return reply(404, { "Content-Type": "text/plain" }, "Stream not found");
  if (request.method === "HEAD") return reply(200, stateOf(stream));
  if (request.method === "POST") return append(stream, request, body, reply);
  const from = query.get("offset") === "now" ? stream.pieces.length : Math.max(0, Number(query.get("offset") ?? -1));
  if (query.get("live") === "sse") return follow(stream, from, response);
  if (query.get("live") === "long-poll" && from === stream.pieces.length && !stream.closed) {
    const wake = () => {
      stream.readers.delete(wake);
      reply(200, { ...stateOf(stream), "Stream-Up-To-Date": "true" }, pageOf(stream, from));
    };
    return void stream.readers.add(wake);
  }
  return reply(200, { ...stateOf(stream), "Stream-Up-To-Date": "true" }, pageOf(stream, from));
}

function append(
  stream: PlainStream,
  { headers }: IncomingMessage,
  body: Buffer,
  reply: (status: number, headers?: HeaderBag) => unknown,
) {
  const id = headers["producer-id"] as string | undefined;
  const [epoch, seq] = [Number(headers["producer-epoch"]), Number(headers["producer-seq"])];
  const known = id === undefined ? undefined : stream.producers.get(id);
  if (known !== undefined && epoch < known.epoch) return reply(403, { "Producer-Epoch": String(known.epoch) });
  if (known !== undefined && epoch === known.epoch && seq <= known.seq) {
    // As the specification has it: without an offset.
    const closed: HeaderBag = stream.closed ? { "Stream-Closed": "true" } : {};
    return reply(204, { "Producer-Epoch": String(epoch), "Producer-Seq": String(known.seq), ...closed });
  }
  if (stream.closed) return reply(409, stateOf(stream));
  const expected = known?.epoch === epoch ? known.seq + 1 : 0;
  if (id !== undefined && seq !== expected) return reply(409, { "Producer-Expected-Seq": String(expected) });
  if (id !== undefined) stream.producers.set(id, { epoch, seq });
  take(stream, body, headers["stream-closed"] === "true");
  return reply(id === undefined ? 204 : 200, stateOf(stream));
}

/** Splits an array of JSON into messages. */
function take(stream: PlainStream, body: Buffer, closes: boolean): void {
  if (body.length > 0 && isJson(stream)) {
    const value: unknown = JSON.parse(body.toString());
    for (const one of Array.isArray(value) ? value : [value]) stream.pieces.push(Buffer.from(JSON.stringify(one)));
  } else if (body.length > 0) stream.pieces.push(body);
  stream.closed ||= closes;
  for (const wake of [...stream.readers]) wake();
}

function pageOf(stream: PlainStream, from: number): Buffer {
  const pieces = stream.pieces.slice(from);
  return isJson(stream) ? Buffer.from(`[${pieces.join(",")}]`) : Buffer.concat(pieces);
}

function follow(stream: PlainStream, from: number, response: ServerResponse): void {
  const isBinary = !isJson(stream) && !stream.type.startsWith("text/");
  const encoding: HeaderBag = isBinary ? { "Stream-SSE-Data-Encoding": "base64" } : {};
  response.writeHead(200, { "Content-Type": "text/event-stream", ...encoding });
  let at = from;
  const send = () => {
    // One event for each piece, and one control event behind them all.
    for (; at < stream.pieces.length; at++) {
      const piece = isJson(stream)
        ? `[${stream.pieces[at]}]`
        : stream.pieces[at]!.toString(isBinary ? "base64" : "utf8");
      response.write(`event: data\n${piece.replace(/^/gm, "data: ")}\n\n`);
    }
    const closed = stream.closed ? { streamClosed: true } : {};
    response.write(
      `event: control\ndata: ${JSON.stringify({ streamNextOffset: offsetOf(at), upToDate: true, ...closed })}\n\n`,
    );
    if (stream.closed) response.end();
  };
  stream.readers.add(send);
  response.on("close", () => stream.readers.delete(send));
  send();
}

function stateOf(stream: PlainStream): HeaderBag {
  const closed: HeaderBag = stream.closed ? { "Stream-Closed": "true" } : {};
  return { "Content-Type": stream.type, "Stream-Next-Offset": offsetOf(stream.pieces.length), ...closed };
}

function offsetOf(count: number): string {
  return String(count).padStart(8, "0");
}

function isJson({ type }: PlainStream): boolean {
  return type === "application/json";
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  return Buffer.concat(pieces);
}
