/**
 * Builds a live session from a client's connection and the platform. `Sluice.session` loads this file, and with it the whole live
 * part, when the first session is opened.
 */
import type { Connection } from "../connection.ts";
import type { PageExit } from "../page-exit.ts";
import type { SessionSettings } from "../session-options.ts";
import { browserWorld } from "./browser-world.ts";
import { LiveSession } from "./live-session.ts";
import { SocketTransport } from "./socket-transport.ts";
import { SseTransport } from "./sse-transport.ts";
import type { Transport } from "./transport.ts";

export interface Opening {
  readonly connection: Connection;
  readonly exit: PageExit;
  readonly settings: SessionSettings;
  /** The client's address, which tells its sessions apart from those of another client in the page's storage. */
  readonly origin: string;
  readonly addressOf: (path: string) => string;
  closed(): void;
}

export function openSession({ connection, exit, settings, origin, addressOf, closed }: Opening): Promise<LiveSession> {
  const { name, heartbeatMs, Socket, usesSse, storage } = settings;
  const transports: Transport[] = [];
  if (Socket !== undefined) {
    transports.push(
      new SocketTransport(Socket, ({ sessionId, token }) => connection.socketUrl(`live/${sessionId}`, { token })),
    );
  }
  if (usesSse) transports.push(new SseTransport(connection));
  return LiveSession.open({
    world: browserWorld(exit, storage),
    policy: connection.retries,
    heartbeatMs,
    transports,
    ask: (call) => connection.once(call),
    sendLast: (call) => connection.sendLast(call),
    key: `sluice:${origin}:${name}`,
    addressOf,
    closed,
  });
}
