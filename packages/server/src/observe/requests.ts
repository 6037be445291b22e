/**
 * Receives every request from the door and passes it to the meter, the log and the tracer. It runs for each request, so
 * a disabled part costs one comparison.
 *
 * Invariants: a log line names the route, never the path or the query, which may carry names, cursors and tokens.
 */
import type { Handle, HttpObserver, ObservedRequest, RequestEnd } from "../doors/http/observer.ts";
import { type HttpMeter, UNKNOWN_ROUTE } from "./http-meter.ts";
import type { LogRequest } from "./log.ts";
import type { RequestIds } from "./request-ids.ts";
import type { RequestTracer } from "./traces.ts";

export interface RequestObserverParts {
  readonly meter: HttpMeter;
  /** Milliseconds since an arbitrary moment, with fractions. */
  readonly clock: () => number;
  readonly ids: RequestIds;
  readonly log: LogRequest | undefined;
  readonly tracer: RequestTracer | undefined;
}

export class RequestObserver implements HttpObserver {
  readonly surround: HttpObserver["surround"];

  constructor(private readonly parts: RequestObserverParts) {
    const { tracer } = parts;
    this.surround = tracer && ((request: ObservedRequest, handle: Handle) => tracer.surround(request, handle));
  }

  began(request: ObservedRequest): void {
    this.parts.meter.active++;
    request.startedAt = this.parts.clock();
  }

  answered(request: ObservedRequest, status: number, hasLeft: boolean): void {
    const { meter, clock, log, tracer } = this.parts;
    const ms = clock() - request.startedAt;
    meter.active--;
    meter.answered(request.route, request.method, status, request.waits ? undefined : ms);
    if (log) this.write(log, request, status, ms, hasLeft ? "gone" : undefined);
    tracer?.end(request, status);
  }

  opened(request: ObservedRequest, status: number): void {
    this.parts.meter.answered(request.route, request.method, status, undefined);
  }

  ended(request: ObservedRequest, status: number, why: RequestEnd): void {
    const { meter, clock, log, tracer } = this.parts;
    meter.active--;
    meter.ended(why);
    if (log) this.write(log, request, status, clock() - request.startedAt, why);
    tracer?.end(request, status);
  }

  malformed(): void {
    this.parts.meter.malformed++;
  }

  idOf(request: ObservedRequest): string {
    return this.parts.ids.of(request);
  }

  private write(
    log: LogRequest,
    request: ObservedRequest,
    status: number,
    ms: number,
    end: RequestEnd | undefined,
  ): void {
    log(request, request.method, request.route ?? UNKNOWN_ROUTE, request.project, status, ms, end);
  }
}
