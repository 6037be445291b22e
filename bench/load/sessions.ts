// Sessions that subscribe to one stream, publishes to it, and the server's count of the copies. Scenarios then check a sample of
// inboxes, because the count alone does not prove that the copies can be read.

import { HttpConnection } from "./http-connection.ts";

const CONNECTIONS = 32;
const JSON_HEADERS = { "Content-Type": "application/json" };
const COPIES = /^sluice_fanout_messages_total ([0-9.e+]+)$/m;

export const STREAM = "source";

export function sessionId(index: number): string {
  return `00000000-0000-4000-8000-${String(index).padStart(12, "0")}`;
}

async function expectStatus(
  connection: HttpConnection,
  request: Parameters<HttpConnection["send"]>[0],
  wanted: number[],
) {
  let body = "";
  const onBody = (piece: Buffer) => {
    body += piece.toString("latin1");
  };
  const reply = await connection.send({ onBody, ...request });
  if (!wanted.includes(reply.status))
    throw new Error(`${request.method} ${request.path} answered ${reply.status}: ${body}`);
  return { reply, body };
}

/** Creates the stream and that many sessions that follow it. */
export async function subscribeAll(url: URL, count: number): Promise<void> {
  const first = await HttpConnection.open(url);
  const path = `/v1/default/stream/${STREAM}`;
  await expectStatus(first, { method: "PUT", path, headers: { "Content-Type": "text/plain" } }, [200, 201]);
  first.close();
  let next = 0;
  const subscriber = async () => {
    const connection = await HttpConnection.open(url);
    while (next < count) {
      const body = JSON.stringify({ sessionId: sessionId(next++), streamId: STREAM });
      await expectStatus(
        connection,
        { method: "POST", path: "/v1/default/subscribe", headers: JSON_HEADERS, body },
        [200],
      );
    }
    connection.close();
  };
  await Promise.all(Array.from({ length: Math.min(CONNECTIONS, count) }, subscriber));
}

/** Publishes one message; returns the kind of its fan-out. */
export async function publish(connection: HttpConnection, message: string): Promise<string> {
  const path = `/v1/default/publish/${STREAM}`;
  const request = { method: "POST", path, headers: { "Content-Type": "text/plain" }, body: message } as const;
  const { reply } = await expectStatus(connection, request, [200, 204]);
  return reply.header("Stream-Fanout-Mode") ?? "";
}

/** The copies that the server has made since its start. */
export async function copies(connection: HttpConnection): Promise<number> {
  const { body } = await expectStatus(connection, { method: "GET", path: "/metrics" }, [200]);
  return Number(COPIES.exec(body)?.[1] ?? Number.NaN);
}

/** The bytes in a session's inbox. */
export async function inboxBytes(connection: HttpConnection, index: number): Promise<number> {
  let bytes = 0;
  for (let offset = "-1"; ; ) {
    const path = `/v1/default/stream/session:${sessionId(index)}?offset=${offset}`;
    const { reply, body } = await expectStatus(connection, { method: "GET", path }, [200]);
    bytes += body.length;
    if (reply.header("Stream-Up-To-Date") === "true") return bytes;
    offset = reply.header("Stream-Next-Offset")!;
  }
}
