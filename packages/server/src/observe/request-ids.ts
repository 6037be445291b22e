/**
 * Ids of requests, which connect a log line, a fault and a report of a client. Called by the request observer and
 * Watch.
 *
 * Invariants: an id from `X-Request-Id` is used only if it is short and of harmless characters, because it is written
 * to the log.
 */
import { hex } from "../core/bytes.ts";
import type { World } from "../core/world.ts";

const SANE = /^[A-Za-z0-9_.:=+/-]{1,64}$/;

/** Two digits to base 36. Formatting the whole number each time would be the most expensive part of a log line. */
const ENDINGS = Array.from({ length: 36 ** 2 }, (_, i) => i.toString(36).padStart(2, "0"));

/** A request, or a call, that is given an id. */
export interface Identified {
  id: string | undefined;
  header(name: string): string | undefined;
}

export class RequestIds {
  private readonly prefix: string;
  private count = 0;
  /** The prefix and all but the last digits of the count; it changes once in `ENDINGS.length` requests. */
  private beginning = "";

  constructor(world: Pick<World, "randomBytes">) {
    this.prefix = `${hex(world.randomBytes(4))}-`;
  }

  /** The same id for the same request, however often it is called. */
  of(request: Identified): string {
    request.id ??= this.next(request.header("x-request-id"));
    return request.id;
  }

  private next(given: string | undefined): string {
    if (given !== undefined && SANE.test(given)) return given;
    const at = this.count++ % ENDINGS.length;
    if (at === 0) this.beginning = this.prefix + Math.floor(this.count / ENDINGS.length).toString(36);
    return this.beginning + ENDINGS[at]!;
  }
}
