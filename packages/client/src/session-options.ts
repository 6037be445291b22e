/**
 * The options of a live session, checked. `Sluice.session` calls it before it loads the rest of the live part.
 *
 * Invariants: a wrong option is refused with a TypeError before any request is sent.
 */
import type { SessionStorage } from "./live/browser-world.ts";
import { numberOption, socketOption, wrong } from "./options.ts";
import type { SocketClass } from "./text-socket.ts";

export interface SessionOptions {
  /** Tells several sessions of one page apart; a page that has one needs no name. */
  readonly name?: string | undefined;
  /** How often the session tells the server what it has processed; 15,000 by default, and from 1,000 to 30,000. */
  readonly heartbeatMs?: number | undefined;
  /** `auto` (the default): a WebSocket, or server-sent events where none can be opened. */
  readonly transport?: "auto" | "websocket" | "sse" | undefined;
  /** A WebSocket class for a platform without one, like that of the package `ws`. */
  readonly WebSocket?: SocketClass | undefined;
  /** Where the id of the session survives a reload; `sessionStorage` by default, and `false` for nowhere. */
  readonly storage?: SessionStorage | false | undefined;
}

export interface SessionSettings {
  readonly name: string;
  readonly heartbeatMs: number;
  readonly Socket: SocketClass | undefined;
  readonly usesSse: boolean;
  readonly storage: SessionStorage | false | undefined;
}

const MAX_HEARTBEAT_MS = 30_000;

export function sessionSettings(options: SessionOptions): SessionSettings {
  const { name = "", transport = "auto", storage } = options;
  if (typeof name !== "string") throw wrong("name", "a text", name);
  if (!["auto", "websocket", "sse"].includes(transport)) {
    throw wrong("transport", '"auto", "websocket" or "sse"', transport);
  }
  const heartbeatMs = numberOption("heartbeatMs", options.heartbeatMs, 15_000, 1_000);
  if (heartbeatMs > MAX_HEARTBEAT_MS) throw wrong("heartbeatMs", `at most ${MAX_HEARTBEAT_MS}`, heartbeatMs);
  const WebSocket = socketOption(options.WebSocket);
  if (transport === "websocket" && WebSocket === undefined) {
    throw new TypeError("this platform has no WebSocket; pass a class as WebSocket, or leave transport out");
  }
  if (storage !== undefined && storage !== false && typeof storage?.getItem !== "function") {
    throw wrong("storage", "like sessionStorage, or false", storage);
  }
  const Socket = transport === "sse" ? undefined : WebSocket;
  return { name, heartbeatMs, storage, Socket, usesSse: transport !== "websocket" };
}
