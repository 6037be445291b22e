/**
 * This server within another one: takes requests and upgrades that a server of `node:http`, Express or Next has accepted, and
 * passes on those that are not for Sluice. The door makes one per prefix.
 *
 * Invariants: the sockets belong to the other server, so this one ends none that is idle. Routes see the address below the
 * prefix, and links in replies start with the prefix. An address outside the prefix is never served.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { Refusal } from "../../core/refusal.ts";
import type { DoorLine, SharedParts } from "./door-request.ts";
import { NodeLine } from "./node-line.ts";
import { NodeRequest, pathOf } from "./node-request.ts";
import { responseTo, UpgradeRequest, type WebSocketDoor } from "./websocket.ts";

export type Next = (fault?: unknown) => void;

/** A listener of `node:http`, and a middleware: `next` gets the requests that are not for Sluice. */
export type RequestHandler = (request: IncomingMessage, response: ServerResponse, next?: Next) => void;

/** A listener for the event `upgrade`. `next` gets the WebSockets that are not for Sluice; without it they are refused. */
export type UpgradeHandler = (request: IncomingMessage, socket: Duplex, head: Buffer, next?: Next) => void;

export interface Mounted {
  readonly handler: RequestHandler;
  readonly upgrade: UpgradeHandler;
}

export interface MountParts {
  readonly shared: SharedParts;
  /** The lines of this door. Another door that is mounted beside it has its own for the same sockets. */
  readonly nodeLines: WeakMap<Socket, NodeLine>;
  readonly webSockets: WebSocketDoor;
  isClosed(): boolean;
  isClosing(): boolean;
  /** Whether this server has such an address. */
  owns(url: string): boolean;
  /** Called with each line that has a response in flight, and when it has none any more. */
  busy(line: DoorLine): void;
  idle(line: DoorLine): void;
}

/** Express and Connect keep the whole address, and where they mounted the handler. */
type Routed = IncomingMessage & { readonly originalUrl?: string; readonly baseUrl?: string };

interface Place {
  /** The address below the prefix. */
  readonly url: string;
  readonly prefix: string;
  /** Why no route may see the request. */
  readonly refusal?: Refusal | undefined;
}

export function mounted(given: string, parts: MountParts): Mounted {
  if (!/^(\/[^?#\s]*)?$/.test(given)) {
    const got = JSON.stringify(given);
    throw new TypeError(`the prefix of mount must be a path that starts with a slash, like "/sluice"; got ${got}`);
  }
  const own = given.replace(/\/+$/, "");
  const placeOf = (incoming: IncomingMessage): Place | undefined => {
    const { originalUrl, baseUrl = "" } = incoming as Routed;
    const prefix = own || baseUrl;
    const url = pathOf(originalUrl ?? incoming.url!);
    if (!url.startsWith(prefix) || !/^([/?]|$)/.test(url.slice(prefix.length))) return undefined;
    const below = url.slice(prefix.length);
    return { url: below.startsWith("/") ? below : `/${below}`, prefix };
  };
  /** The place of a request that is for Sluice; undefined after `next` was called. */
  const take = (incoming: IncomingMessage, next: Next | undefined): Place | undefined => {
    const place = placeOf(incoming);
    const isOurs = place !== undefined && (place.prefix !== "" || parts.owns(place.url));
    if (isOurs) return place;
    // Without a next, the router refuses an unknown address. It must not see one outside the prefix, which it may know.
    if (next === undefined) return place ?? outside(incoming.url!, own);
    next();
    return undefined;
  };
  return {
    handler: (incoming, outgoing, next) => {
      const place = take(incoming, next);
      if (place === undefined) return;
      const line = lineOf(incoming.socket, parts);
      const request = new NodeRequest(incoming, outgoing, line, false, place.url, place.prefix);
      request.refusal = parts.isClosed() ? closed() : place.refusal;
      parts.busy(line);
      outgoing.on("close", () => {
        line.answered(outgoing, parts.isClosing());
        if (line.isIdle) parts.idle(line);
      });
      line.arrive(request);
    },
    upgrade: (incoming, socket, head, next) => {
      const place = take(incoming, next);
      if (place === undefined) return;
      const outgoing = responseTo(incoming, socket as Socket);
      if (outgoing === undefined) return;
      const line = lineOf(socket as Socket, parts);
      const request = new UpgradeRequest(incoming, outgoing, line, head, parts.webSockets, place.url, place.prefix);
      request.refusal = parts.isClosed() ? closed() : place.refusal;
      parts.busy(line);
      socket.once("close", () => parts.idle(line));
      line.arrive(request);
    },
  };
}

function outside(url: string, prefix: string): Place {
  const [path] = pathOf(url).split("?");
  const refusal = new Refusal("no-route", `there is nothing at ${path}; this server is mounted at ${prefix}/`);
  return { url, prefix: "", refusal };
}

function closed(): Refusal {
  return new Refusal("draining", "the server was closed; connect again");
}

function lineOf(socket: Socket, { shared, nodeLines, idle }: MountParts): NodeLine {
  const known = nodeLines.get(socket);
  if (known !== undefined) return known;
  const line = new NodeLine(socket, shared);
  nodeLines.set(socket, line);
  socket.once("close", () => idle(line));
  return line;
}
