/** A webhook receiver for the tests of wakes over HTTP: keeps what it was told, and answers as the test chooses. */
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import type { Notified } from "./app.ts";

/** A webhook's receiver over HTTP, whose answer the test chooses. */
export async function receiver() {
  const received: Notified[] = [];
  const made = { url: "", received, status: 200, answer: {} as object };
  const server = createHttpServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => {
      received.push(JSON.parse(Buffer.concat(chunks).toString()));
      outgoing.writeHead(made.status).end(JSON.stringify(made.answer));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  made.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  return made;
}
