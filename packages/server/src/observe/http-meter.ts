/**
 * The counters of the HTTP door: requests by route, method and class of status, their duration, and how live responses
 * ended. The request observer adds to it; Watch lists its metrics.
 *
 * Invariants: clients cannot grow the number of label sets. Methods come from a fixed list, and routes from the
 * router's names up to a limit; any other label is `other`.
 */
import { counter, counters, gauge, type Metric } from "../core/metric.ts";
import { SECONDS, Tally } from "../core/tally.ts";
import type { CutReason, RequestEnd, Traffic } from "../doors/http/observer.ts";

const METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "other"] as const;
const METHOD_INDEX = new Map<string, number>(METHODS.map((method, i) => [method, i]));
const OTHER_METHOD = METHODS.length - 1;
/** 1xx to 5xx, by their first digit; 0 is never used. */
const CLASSES = 6;
const MAX_ROUTES = 100;
const OTHER_ROUTE = "other";
/** The label of a request without a route. */
export const UNKNOWN_ROUTE = "unknown";

/** What a door counts by itself. */
export interface ObservedDoor {
  readonly connections: number;
  readonly traffic: Traffic;
  readonly memory: { readonly usedBytes: number };
  readonly cuts: Readonly<Record<CutReason, number>>;
}

interface RouteCounts {
  /** By method and class: method * CLASSES + class. */
  readonly answers: number[];
  readonly seconds: Tally;
}

export class HttpMeter {
  active = 0;
  malformed = 0;
  private readonly routes = new Map<string, RouteCounts>();
  private readonly ends: Record<RequestEnd, number> = {
    gone: 0,
    stream: 0,
    time: 0,
    drained: 0,
    "slow-reader": 0,
    fault: 0,
    displaced: 0,
    expired: 0,
  };

  /** `ms` is undefined if the time says nothing about the server. */
  answered(route: string | undefined, method: string, status: number, ms: number | undefined): void {
    const { answers, seconds } = this.countsOf(route ?? UNKNOWN_ROUTE);
    const index = (METHOD_INDEX.get(method) ?? OTHER_METHOD) * CLASSES + Math.floor(status / 100);
    answers[index]!++;
    if (ms !== undefined) seconds.add(ms / 1_000);
  }

  ended(why: RequestEnd): void {
    this.ends[why]++;
  }

  private countsOf(route: string): RouteCounts {
    const known = this.routes.get(route);
    if (known !== undefined) return known;
    if (this.routes.size >= MAX_ROUTES && route !== OTHER_ROUTE) return this.countsOf(OTHER_ROUTE);
    const counts = { answers: new Array<number>(METHODS.length * CLASSES).fill(0), seconds: new Tally(SECONDS) };
    this.routes.set(route, counts);
    return counts;
  }

  metrics(door: ObservedDoor): readonly Metric[] {
    return [
      {
        kind: "counter",
        name: "sluice_http_requests_total",
        help: "Requests that were answered, by route, method and class of status.",
        read: (observe) => {
          for (const [route, { answers }] of this.routes) {
            for (const [i, count] of answers.entries()) {
              if (count === 0) continue;
              const method = METHODS[Math.floor(i / CLASSES)]!;
              observe(count, { route, method, status: `${i % CLASSES}xx` });
            }
          }
        },
      },
      {
        kind: "histogram",
        name: "sluice_http_request_seconds",
        help: "From the first line of a request to its answer, by route; long-polls that waited and SSE left out.",
        read: (observe) => {
          for (const [route, { seconds }] of this.routes) observe(seconds, { route });
        },
      },
      gauge(
        "sluice_http_requests_active",
        "Requests that are not answered yet, open SSE and WebSockets.",
        () => this.active,
      ),
      gauge("sluice_http_connections", "Connections that are open.", () => door.connections),
      gauge("sluice_http_memory_bytes", "Request bodies, waiting requests and unsent answers in memory.", () => {
        return door.memory.usedBytes;
      }),
      counters("sluice_http_cut_total", "Connections that were cut off, by reason.", "reason", () => door.cuts),
      counter("sluice_http_malformed_total", "Inputs that were not an HTTP request, or did not arrive in time.", () => {
        return this.malformed;
      }),
      counter("sluice_http_received_bytes_total", "Bytes of request bodies that were read.", () => {
        return door.traffic.receivedBytes;
      }),
      counter("sluice_http_sent_bytes_total", "Bytes of answers, without headers.", () => door.traffic.sentBytes),
      counters(
        "sluice_live_ended_total",
        "SSE connections and WebSockets that ended, by reason.",
        "reason",
        () => this.ends,
      ),
    ];
  }
}
