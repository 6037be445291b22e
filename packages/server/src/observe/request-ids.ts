/**
 * Ids of requests, which connect a log line, a fault and a report of a client. Called by the request observers, the log and
 * Watch.
 *
 * Invariants: an id from `X-Request-Id` is used only if it is short and of harmless characters, because it is written
 * to the log. A request keeps its id.
 */
import { hex } from "../core/bytes.ts";
import type { World } from "../core/world.ts";

/** The most bytes of an id. */
export const MAX_ID_BYTES = 64;
const SANE = new RegExp(`^[A-Za-z0-9_.:=+/-]{1,${MAX_ID_BYTES}}$`);

const BASE = 36;
const LEAST_DIGITS = 3;
const DIGITS = Buffer.from("0123456789abcdefghijklmnopqrstuvwxyz");

/** A request, or a call, that is given an id. A number is an id of this process that is not spelled out yet. */
export interface Identified {
  id: string | number | undefined;
  header(name: string): string | undefined;
}

export class RequestIds {
  private readonly prefix: string;
  private readonly prefixBytes: Buffer;
  private count = 0;

  constructor(world: Pick<World, "randomBytes">) {
    this.prefix = `${hex(world.randomBytes(4))}-`;
    this.prefixBytes = Buffer.from(this.prefix);
  }

  /** The same id for the same request, however often it is called. */
  of(request: Identified): string {
    const id = this.known(request);
    if (typeof id === "string") return id;
    const text = this.prefix + id.toString(BASE).padStart(LEAST_DIGITS, "0");
    request.id = text;
    return text;
  }

  /** As `of`, into bytes; returns where the id ends. Most requests are logged and never asked for their id as text. */
  write(request: Identified, bytes: Buffer, at: number): number {
    const id = this.known(request);
    if (typeof id === "string") return at + bytes.write(id, at, "latin1");
    const { prefixBytes } = this;
    for (let i = 0; i < prefixBytes.length; i++) bytes[at + i] = prefixBytes[i]!;
    return writeDigits(id, bytes, at + prefixBytes.length);
  }

  private known(request: Identified): string | number {
    request.id ??= this.next(request.header("x-request-id"));
    return request.id;
  }

  private next(given: string | undefined): string | number {
    return given !== undefined && SANE.test(given) ? given : this.count++;
  }
}

function writeDigits(count: number, bytes: Buffer, at: number): number {
  let digits = LEAST_DIGITS;
  for (let beyond = BASE ** LEAST_DIGITS; beyond <= count; beyond *= BASE) digits++;
  let rest = count;
  for (let i = at + digits - 1; i >= at; i--) {
    const higher = Math.floor(rest / BASE);
    bytes[i] = DIGITS[rest - higher * BASE]!;
    rest = higher;
  }
  return at + digits;
}
