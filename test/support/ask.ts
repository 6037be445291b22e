/**
 * One HTTP request and its whole answer, for suites that make thousands of them. A `fetch` takes a processor three times as long
 * as `node:http`, and sixty times as long as the call of a router in this process, which a stage registers under its address.
 * Suites that show what HTTP itself does use `fetch` or a socket.
 *
 * Invariants: a request begins in a turn of its own, as one from a socket does. A reply that stays open needs a real connection.
 */
import { Agent, request } from "node:http";
import type { HttpRequest, Reply } from "../../packages/server/src/core/http.ts";
import { renderFault } from "../../packages/server/src/doors/http/problem.ts";

export type Payload = string | Uint8Array;

export interface Asked {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Payload | undefined;
  readonly signal?: AbortSignal;
}

export interface Told {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Buffer;
  readonly text: string;
}

interface Local {
  readonly route: (request: HttpRequest) => Promise<Reply> | Reply;
  readonly report: (fault: unknown) => void;
}

const locals = new Map<string, Local>();
const agent = new Agent({ keepAlive: true });

/** From here on, requests to this address go straight to the router, until what is returned is called. */
export function answerHere(origin: string, local: Local): () => void {
  locals.set(origin, local);
  return () => void locals.delete(origin);
}

export async function ask(address: string, asked: Asked = {}): Promise<Told> {
  const url = new URL(address);
  const local = locals.get(url.origin);
  return local === undefined ? askOverSocket(url, asked) : directly(url, asked, local);
}

function told(status: number, names: readonly string[], bytes: Buffer): Told {
  const headers = new Headers();
  for (let i = 0; i < names.length; i += 2) headers.append(names[i]!, names[i + 1]!);
  return { status, headers, bytes, text: bytes.toString() };
}

/** For suites of the door: never past it. */
export function askOverSocket(
  url: URL | string,
  { method = "GET", headers = {}, body, signal }: Asked = {},
): Promise<Told> {
  // By itself node:http sends the length of a POST's body only.
  const named = body === undefined ? headers : { ...headers, "Content-Length": String(Buffer.byteLength(body)) };
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { agent, method, headers: named, ...(signal && { signal }) }, (incoming) => {
      const chunks: Buffer[] = [];
      incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
      incoming.on("end", () => resolve(told(incoming.statusCode!, incoming.rawHeaders, Buffer.concat(chunks))));
      incoming.on("error", reject);
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}

function requestTo(url: URL, { method = "GET", headers = {}, body = "" }: Asked): HttpRequest {
  const named = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  const bytes = Buffer.from(body as string);
  return {
    method,
    path: url.pathname,
    search: url.search.slice(1),
    origin: url.origin,
    header: (name) => named.get(name),
    body: async (max) => (bytes.length > max ? { kind: "too-large" } : { kind: "body", bytes }),
    onGone: () => {},
  };
}

async function directly(url: URL, asked: Asked, { route, report }: Local): Promise<Told> {
  await new Promise(setImmediate);
  const reply = await replyOf(() => route(requestTo(url, asked)), report);
  if (reply.live !== undefined || reply.socket !== undefined)
    throw new Error(`${url.pathname} answers with an open connection`);
  const body = asked.method === "HEAD" ? "" : (reply.body ?? "");
  return told(reply.status, reply.headers, Buffer.from(body as string));
}

async function replyOf(handle: () => Promise<Reply> | Reply, report: (fault: unknown) => void): Promise<Reply> {
  try {
    return await handle();
  } catch (fault) {
    return renderFault(fault, report);
  }
}
