/**
 * The cheapest requests that Node can make, on connections that stay open, so that the client is not the bottleneck.
 * The bench commands share it.
 */
import { Agent, request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest, Agent as SecureAgent } from "node:https";
import type { Remote } from "../remote.ts";

export interface Answer {
  readonly status: number;
  readonly bytes: number;
  readonly headers: IncomingMessage["headers"];
}

export class Connections {
  private readonly agent: Agent;
  private readonly isSecure: boolean;

  constructor(
    private readonly remote: Remote,
    count: number,
  ) {
    this.isSecure = remote.url.startsWith("https:");
    const options = { keepAlive: true, maxSockets: count };
    this.agent = this.isSecure ? new SecureAgent(options) : new Agent(options);
  }

  send(method: string, url: string, own: Record<string, string> = {}, body?: string): Promise<Answer> {
    const headers = Object.fromEntries(this.remote.headers(own));
    if (body !== undefined) headers["content-length"] = String(Buffer.byteLength(body));
    return new Promise((resolve, reject) => {
      const start = this.isSecure ? httpsRequest : httpRequest;
      const outgoing = start(url, { method, headers, agent: this.agent }, (incoming) => {
        let bytes = 0;
        incoming.on("data", (piece: Buffer) => {
          bytes += piece.length;
        });
        incoming.on("end", () => resolve({ status: incoming.statusCode!, bytes, headers: incoming.headers }));
        incoming.on("error", reject);
      });
      outgoing.on("error", (fault) => reject(this.remote.unreachable({ message: fault.message, cause: fault })));
      outgoing.end(body);
    });
  }

  close(): void {
    this.agent.destroy();
  }
}
