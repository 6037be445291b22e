/**
 * Receives every call from the gRPC door and passes it to the meter, the log and the tracer, as `requests.ts` does for HTTP.
 *
 * Invariants: a log line names the method, never a resource, which may carry names.
 */
import type { GrpcObserver, ObservedCall } from "../doors/grpc/observer.ts";
import { status } from "../doors/grpc/status.ts";
import type { GrpcMeter } from "./grpc-meter.ts";
import type { LogRequest } from "./log.ts";
import type { RequestTracer } from "./traces.ts";

export interface CallObserverParts {
  readonly meter: GrpcMeter;
  /** Milliseconds since an arbitrary moment, with fractions. */
  readonly clock: () => number;
  readonly log: LogRequest | undefined;
  readonly tracer: RequestTracer | undefined;
}

/** Where a line of HTTP has its method. */
const GRPC = "gRPC";

export class CallObserver implements GrpcObserver {
  readonly surround: GrpcObserver["surround"];

  constructor(private readonly parts: CallObserverParts) {
    const { tracer } = parts;
    this.surround = tracer && ((call, run) => tracer.surroundCall(call, run));
  }

  began(call: ObservedCall): void {
    call.startedAt = this.parts.clock();
    this.parts.meter.began(call);
  }

  ended(call: ObservedCall, code: number): void {
    const { meter, clock, log, tracer } = this.parts;
    const ms = clock() - call.startedAt;
    meter.ended(call, code, ms);
    log?.(call, GRPC, call.method, call.project, code, ms, code === status.CANCELLED ? "gone" : undefined);
    tracer?.endCall(call, code);
  }
}
