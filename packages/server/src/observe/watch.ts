/**
 * Owns the observation of one server: its log, its metrics and its traces. Compose opens it first and closes it last,
 * passes its observers to the doors, and adds the metrics that each part lists.
 *
 * - Metrics: each part counts in plain numbers and lists its own metrics (`core/metric.ts`): name, meaning, and how to
 *   read the number. They are read only at a scrape, so the hot path only adds.
 * - Requests: the door reports every request to an observer (`doors/http/observer.ts`). `requests.ts` turns that into
 *   log lines, counts and spans.
 * - Labels come from fixed lists, never from clients. Paths, queries and payloads appear in neither logs nor spans.
 * - Log lines wait in a bounded buffer for standard error (`line-buffer.ts`). While it accepts nothing, further lines
 *   are dropped and counted.
 *
 * Invariants: nothing here is global, so several servers in one process have metrics of their own.
 */
import type { TracerProvider } from "@opentelemetry/api";
import { gauge, type Metric } from "../core/metric.ts";
import type { Cancel, World } from "../core/world.ts";
import type { GrpcObserver } from "../doors/grpc/observer.ts";
import type { HttpObserver, ObservedRequest } from "../doors/http/observer.ts";
import type { EngineError } from "../engine/contract.ts";
import type { Around } from "../engine/keeper.ts";
import { CallObserver } from "./calls.ts";
import { METRIC_LIMITS, type MetricLimits } from "./defaults.ts";
import { GrpcMeter, type ObservedGrpcDoor } from "./grpc-meter.ts";
import { HttpMeter, type ObservedDoor } from "./http-meter.ts";
import { Log, type LogOptions } from "./log.ts";
import { type ProcessMetrics, processMetrics } from "./process-metrics.ts";
import { prometheusText } from "./prometheus.ts";
import { RequestIds } from "./request-ids.ts";
import { RequestObserver } from "./requests.ts";
import { RequestTracer } from "./traces.ts";

export interface WatchOptions {
  readonly log: LogOptions | false;
  /** Undefined uses the global provider, if the embedding program has set one. */
  readonly tracing?: TracerProvider | false | undefined;
  /** Gets faults instead of the log. */
  readonly report?: ((what: string, fault: unknown, requestId?: string) => void) | undefined;
  readonly world: World;
  /** Milliseconds since an arbitrary moment, with fractions. */
  readonly clock: () => number;
  /** The name of the storage engine, for `sluice_build_info`. */
  readonly engine: string;
  readonly limits?: MetricLimits | undefined;
}

export class Watch {
  readonly log: Log;
  readonly observer: HttpObserver;
  readonly grpcObserver: GrpcObserver;
  /** Undefined without a tracer. */
  readonly around: Around | undefined;
  /** Reports a fault whose details no client sees. */
  readonly report: (what: string, fault: unknown, requestId?: string) => void;
  private readonly listed: Metric[] = [];
  private readonly http = new HttpMeter();
  private readonly grpc = new GrpcMeter();
  private readonly ids: RequestIds;
  private readonly process: ProcessMetrics;
  private readonly world: World;
  private readonly limits: MetricLimits;
  private nextLook: Cancel | undefined;

  constructor({ log, tracing, report, world, clock, engine, limits = METRIC_LIMITS }: WatchOptions) {
    this.world = world;
    this.limits = limits;
    this.ids = new RequestIds(world);
    this.log = Log.open(log, world, this.ids);
    this.report = report ?? ((what, fault, id) => this.log.fault(what, fault, id));
    const tracer = RequestTracer.open(tracing);
    this.around = tracer?.around;
    this.observer = new RequestObserver({ meter: this.http, clock, ids: this.ids, log: this.log.request, tracer });
    this.grpcObserver = new CallObserver({ meter: this.grpc, clock, log: this.log.request, tracer });
    this.process = processMetrics(engine, world, limits.eventLoopMs);
    this.add([...this.process.metrics, ...this.log.metrics()]);
  }

  add(metrics: readonly Metric[]): void {
    this.listed.push(...metrics);
  }

  addDoor(door: ObservedDoor): void {
    this.add(this.http.metrics(door));
  }

  addGrpcDoor(door: ObservedGrpcDoor): void {
    this.add(this.grpc.metrics(door));
  }

  metrics(): Promise<string> {
    return prometheusText(this.listed, this.report);
  }

  reportRequest(fault: unknown, request: ObservedRequest): void {
    this.report("a request failed", fault, this.ids.of(request));
  }

  /** Logs when the engine stops accepting writes, and when it accepts them again. */
  followHealth(health: () => EngineError | undefined): void {
    this.add([gauge("sluice_writable", "1 while the engine accepts writes, else 0.", () => (health() ? 0 : 1))]);
    let last: string | undefined;
    const look = () => {
      const now = health();
      if (now?.explanation !== last) {
        if (now) this.log.warn("writes are refused", { code: now.code, reason: now.explanation });
        else this.log.info("writes are taken again");
      }
      last = now?.explanation;
      this.nextLook = this.world.after(this.limits.healthMs, look);
    };
    look();
  }

  /** Stops checking the engine, which may be closed afterwards. */
  stop(): void {
    this.nextLook?.();
  }

  async close(): Promise<void> {
    this.stop();
    this.process.close();
    await this.log.close();
  }
}
