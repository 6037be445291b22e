/**
 * The counters of the gRPC door: calls by method and code, their duration, and what is open. The call observer adds to it; Watch
 * lists its metrics.
 *
 * Invariants: clients cannot grow the number of label sets. Methods are those of the definitions, and `other`.
 */
import { counter, gauge, type Metric } from "../core/metric.ts";
import { SECONDS, Tally } from "../core/tally.ts";
import type { GrpcTraffic, ObservedCall } from "../doors/grpc/observer.ts";
import { CODES } from "../doors/grpc/status.ts";

/** What a door counts by itself. */
export interface ObservedGrpcDoor {
  readonly connections: number;
  readonly refused: number;
  readonly traffic: GrpcTraffic;
}

interface MethodCounts {
  readonly byCode: number[];
  readonly seconds: Tally;
}

export class GrpcMeter {
  private active = 0;
  private streams = 0;
  private readonly methods = new Map<string, MethodCounts>();

  began({ isStream }: ObservedCall): void {
    this.active++;
    if (isStream) this.streams++;
  }

  ended({ method, isStream, waits }: ObservedCall, code: number, ms: number): void {
    this.active--;
    if (isStream) this.streams--;
    const { byCode, seconds } = this.countsOf(method);
    byCode[code]!++;
    if (!waits) seconds.add(ms / 1_000);
  }

  private countsOf(method: string): MethodCounts {
    const known = this.methods.get(method);
    if (known !== undefined) return known;
    const counts = { byCode: new Array<number>(CODES.length).fill(0), seconds: new Tally(SECONDS) };
    this.methods.set(method, counts);
    return counts;
  }

  metrics(door: ObservedGrpcDoor): readonly Metric[] {
    return [
      {
        kind: "counter",
        name: "sluice_grpc_requests_total",
        help: "Calls that have ended, by method and code.",
        read: (observe) => {
          for (const [method, { byCode }] of this.methods) {
            for (const [code, count] of byCode.entries()) if (count > 0) observe(count, { method, code: CODES[code]! });
          }
        },
      },
      {
        kind: "histogram",
        name: "sluice_grpc_request_seconds",
        help: "From the start of a call to its status, by method; Pull and StreamingPull left out.",
        read: (observe) => {
          for (const [method, { seconds }] of this.methods) if (seconds.count > 0) observe(seconds, { method });
        },
      },
      gauge("sluice_grpc_requests_active", "Calls that have not ended.", () => this.active),
      gauge("sluice_grpc_streams", "StreamingPull calls that are open.", () => this.streams),
      gauge("sluice_grpc_connections", "Connections that are open.", () => door.connections),
      counter("sluice_grpc_connections_refused_total", "Connections for which there was no room.", () => door.refused),
      counter("sluice_grpc_received_bytes_total", "Bytes of requests.", () => door.traffic.receivedBytes),
      counter("sluice_grpc_sent_bytes_total", "Bytes of responses.", () => door.traffic.sentBytes),
    ];
  }
}
