/**
 * Bounds the connections of the HTTP door, so that idle clients cannot take the descriptors that the engine needs. The adapter
 * applies it; compose takes the number from `connectionsWithin`.
 *
 * Invariants: the connections that are served have entered the room. A few beyond it are open while they are refused; any further one is closed
 * at once. A failed accept costs that connection and nothing else.
 */
import { readdirSync, readFileSync } from "node:fs";
import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { ConnectionRoom } from "../connection-room.ts";
import type { Secure } from "../tls/certificate.ts";
import { hangUp } from "./node-hang-up.ts";

/** Descriptors for the engine, for threads, webhooks and key sets: a quarter of the limit, within these bounds. */
const RESERVED = { least: 32, most: 256 };
/** Connections that are told why they are refused, at a time: an eighth of those that are served, within these bounds. */
const REFUSING = { least: 4, most: 256 };
/** A server that takes fewer connections than this says so when it starts. */
const FEW_CONNECTIONS = 1_000;

/** The descriptors of this process. */
export interface OpenFiles {
  readonly limit: number;
  readonly inUse: number;
}

/** Undefined where the system does not tell. */
export function openFiles(): OpenFiles | undefined {
  try {
    const limit = /^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
    return limit === undefined ? undefined : { limit: Number(limit), inUse: readdirSync("/proc/self/fd").length };
  } catch {
    return undefined;
  }
}

/** The connections to take if the operator allows `wanted`. Throws if the limit of open files leaves no room for any. */
export function connectionsWithin(
  wanted: number,
  files: OpenFiles | undefined,
  warn: (what: string, details: object) => void,
): number {
  if (files === undefined) return wanted;
  const { limit, inUse } = files;
  const reserved = within(RESERVED, limit / 4);
  const room = limit - inUse - reserved;
  const connections = Math.min(wanted, room - refusing(room));
  if (connections < 1) {
    const needed = inUse + RESERVED.least + 2 * REFUSING.least;
    throw new Error(`the limit of open files is ${limit}, and the server needs ${needed} and one more per connection`);
  }
  if (connections < Math.min(wanted, FEW_CONNECTIONS)) {
    warn("the limit of open files is low: connections beyond it are refused", { openFiles: limit, connections });
  }
  return connections;
}

/** Gives a connection to the other listeners. */
export type Admit = (socket: Socket) => void;
/** Takes a connection that is served, and admits it now or later, perhaps as another socket of the same connection. */
export type Entrance = (socket: Socket, admit: Admit) => void;

const admitAtOnce: Entrance = (socket, admit) => admit(socket);

/** Call it after all other listeners for connections are in place, because only served connections reach them. */
export function capConnections(
  server: Server,
  room: ConnectionRoom,
  lingerMs: number,
  enter: Entrance = admitAtOnce,
  secure?: Secure,
): void {
  const { most } = room;
  const listeners = server.listeners("connection");
  server.removeAllListeners("connection");
  const admit: Admit = (socket) => {
    for (const listener of listeners) listener.call(server, socket);
  };
  const serve = (socket: Socket) => enter(socket, admit);
  const take = secure?.(serve) ?? serve;
  server.on("connection", (socket: Socket) => {
    if (room.enter(socket)) take(socket);
    // A refusal could be read only after a handshake, which costs more than it tells.
    else if (secure !== undefined) socket.destroy();
    else refuse(socket, most, lingerMs);
  });
  server.maxConnections = most + refusing(most);
  // Without a listener, a failed accept would end the process.
  server.on("error", () => {});
}

function refuse(socket: Socket, most: number, lingerMs: number): void {
  socket.on("error", () => socket.destroy());
  // Input that was not read when the connection closes would cost the client the answer.
  socket.resume();
  const detail = `the server has its ${most} connections already; retry later`;
  hangUp(socket, lingerMs, "overloaded", detail, ["Retry-After: 1", "Cache-Control: no-store"]);
}

const refusing = (connections: number): number => within(REFUSING, connections / 8);

function within({ least, most }: { least: number; most: number }, wanted: number): number {
  return Math.max(least, Math.min(most, Math.floor(wanted)));
}
