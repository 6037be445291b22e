// Sessions of Live and their tabs: mints sessions that subscribe to one stream, and lets tabs that were away connect and catch up.
// The Live scenarios use it.

import { connect } from "node:net";
import { spread } from "./fill.ts";
import type { HttpConnection } from "./http-connection.ts";
import { countMarkers } from "./message.ts";
import { webSocketRequest } from "./readers.ts";

const CONNECTIONS = 64;
const JSON_HEADERS = { "Content-Type": "application/json" };

/** A session that subscribes to the stream. */
export interface Tab {
  readonly sessionId: string;
  /** Where its pushes begin. */
  readonly offset: string;
}

type Post = { readonly path: string; readonly body: object };

async function post<T>(connection: HttpConnection, { path, body }: Post): Promise<T> {
  let text = "";
  const onBody = (piece: Buffer) => {
    text += piece.toString("latin1");
  };
  const request = { method: "POST", path, headers: JSON_HEADERS, body: JSON.stringify(body), onBody } as const;
  const { status } = await connection.send(request);
  if (status >= 300) throw new Error(`POST ${path} answered ${status}: ${text}`);
  return JSON.parse(text) as T;
}

export async function mintTabs(url: URL, streamId: string, count: number): Promise<readonly Tab[]> {
  const tabs: Tab[] = [];
  await spread(url, Math.min(CONNECTIONS, count), count, async (connection) => {
    const { sessionId } = await post<Tab>(connection, { path: "/v1/sessions", body: {} });
    const { offset } = await post<Tab>(connection, { path: "/v1/subscriptions", body: { sessionId, streamId } });
    tabs.push({ sessionId, offset });
  });
  return tabs;
}

export const tabRequest = (url: URL, { sessionId }: Tab): string => webSocketRequest(url, `/v1/live/${sessionId}`);

/**
 * All tabs connect, as many at a time as there are `lanes`, and each reads its stream from its offset after `hello`. Returns a
 * function that closes them. Throws if a tab does not get `messages` messages.
 */
export async function reconnectAll(
  url: URL,
  path: string,
  tabs: readonly Tab[],
  messages: number,
  lanes: number,
): Promise<() => void> {
  const closes: (() => void)[] = [];
  await spread(url, lanes, tabs.length, async (connection, i) => {
    const tab = tabs[i]!;
    closes.push(await greeted(url, tab));
    let read = 0;
    const reply = await connection.send({
      method: "GET",
      path: `${path}?offset=${tab.offset}&session=${tab.sessionId}`,
      onBody: (piece) => {
        read += countMarkers(piece);
      },
    });
    if (reply.status !== 200 || read !== messages) {
      throw new Error(`a catch-up answered ${reply.status} with ${read} of ${messages} messages`);
    }
  });
  return () => {
    for (const close of closes) close();
  };
}

/** Resolves when `hello` has come. */
function greeted(url: URL, tab: Tab): Promise<() => void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: url.hostname, port: Number(url.port) });
    let text = "";
    socket.on("connect", () => void socket.write(tabRequest(url, tab)));
    socket.on("data", (piece) => {
      text += piece.toString("latin1");
      if (text.includes('"hello"')) resolve(() => void socket.destroy());
    });
    socket.on("error", reject);
    socket.on("close", () => reject(new Error(`a tab was closed: ${text.slice(0, 200)}`)));
  });
}
