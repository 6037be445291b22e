/**
 * Names for requests, so that a log line, a fault and a complaint can be brought together. A client or proxy may bring one in
 * `X-Request-Id`; it is taken only when it is short and of letters that mean nothing to whoever reads a log.
 */
import { hex } from "../core/bytes.ts";
import type { World } from "../core/world.ts";
import type { ObservedRequest } from "../doors/http/observer.ts";

const SANE = /^[A-Za-z0-9_.:=+/-]{1,64}$/;

/** Two digits to base 36. Making all of a number anew would be the dearest part of a log line. */
const ENDINGS = Array.from({ length: 36 ** 2 }, (_, i) => i.toString(36).padStart(2, "0"));

export class RequestIds {
  private readonly prefix: string;
  private count = 0;
  /** The prefix and all but the last digits of the count; it changes once in `ENDINGS.length` requests. */
  private beginning = "";

  constructor(world: Pick<World, "randomBytes">) {
    this.prefix = `${hex(world.randomBytes(4))}-`;
  }

  /** The same for the same request, however often it is asked. */
  of(request: ObservedRequest): string {
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
