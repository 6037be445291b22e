/**
 * Everything that watches one server: its log, its metrics, its traces. Compose opens it first and closes it last, gives the door its
 * observer, and adds the metrics that each part lists.
 */
import type { TracerProvider } from "@opentelemetry/api";
import { gauge, type Metric } from "../core/metric.ts";
import type { Cancel, World } from "../core/world.ts";
import type { HttpObserver, ObservedRequest, Traffic } from "../doors/http/observer.ts";
import type { EngineError } from "../engine/contract.ts";
import type { Around } from "../engine/keeper.ts";
import { HttpMeter } from "./http-meter.ts";
import { METRIC_LIMITS, type MetricLimits } from "./limits.ts";
import { Log, type LogOptions } from "./log.ts";
import { type ProcessMetrics, processMetrics } from "./process-metrics.ts";
import { Registry } from "./registry.ts";
import { RequestIds } from "./request-ids.ts";
import { RequestObserver } from "./requests.ts";
import { RequestTracer } from "./traces.ts";

export interface WatchOptions {
  readonly log: LogOptions | false;
  /** Undefined takes the global provider, if the program around us has set one. */
  readonly tracing?: TracerProvider | false | undefined;
  /** Hears of faults in the log's place. */
  readonly report?: ((what: string, fault: unknown, requestId?: string) => void) | undefined;
  readonly world: World;
  /** Ms from any moment on, finely. */
  readonly clock: () => number;
  /** What the data is kept by. */
  readonly engine: string;
  readonly limits?: MetricLimits | undefined;
}

export class Watch {
  readonly log: Log;
  readonly observer: HttpObserver;
  /** Undefined unless there are traces. */
  readonly around: Around | undefined;
  /** Faults that no client is told about. */
  readonly report: (what: string, fault: unknown, requestId?: string) => void;
  private readonly registry: Registry;
  private readonly http = new HttpMeter();
  private readonly ids: RequestIds;
  private readonly process: ProcessMetrics;
  private readonly world: World;
  private readonly limits: MetricLimits;
  private nextLook: Cancel | undefined;

  constructor({ log, tracing, report, world, clock, engine, limits = METRIC_LIMITS }: WatchOptions) {
    this.world = world;
    this.limits = limits;
    this.log = Log.open(log, world);
    this.report = report ?? ((what, fault, id) => this.log.fault(what, fault, id));
    this.ids = new RequestIds(world);
    const tracer = RequestTracer.open(tracing);
    this.around = tracer?.around;
    this.observer = new RequestObserver({ meter: this.http, clock, ids: this.ids, log: this.log.request, tracer });
    this.registry = new Registry(this.report);
    this.process = processMetrics(engine, world, limits.eventLoopMs);
    this.registry.add([...this.process.metrics, ...this.log.metrics()]);
  }

  add(metrics: readonly Metric[]): void {
    this.registry.add(metrics);
  }

  addDoor(door: { readonly connections: number; readonly traffic: Traffic }): void {
    this.registry.add(this.http.metrics(door));
  }

  metrics(): Promise<string> {
    return this.registry.render();
  }

  reportRequest(fault: unknown, request: ObservedRequest): void {
    this.report("a request failed", fault, this.ids.of(request));
  }

  /** Logs when the engine stops taking writes, and when it takes them again. */
  followHealth(health: () => EngineError | undefined): void {
    this.add([gauge("sluice_writable", "1 while the engine takes writes, else 0.", () => (health() ? 0 : 1))]);
    let last: string | undefined;
    const look = () => {
      const now = health();
      if (now?.message !== last) {
        if (now) this.log.warn("writes are refused", { code: now.code, reason: now.message });
        else this.log.info("writes are taken again");
      }
      last = now?.message;
      this.nextLook = this.world.after(this.limits.healthMs, look);
    };
    look();
  }

  /** Looks at the engine no more; after this it may be closed. */
  stop(): void {
    this.nextLook?.();
  }

  async close(): Promise<void> {
    this.stop();
    this.process.close();
    await this.registry.close();
    await this.log.close();
  }
}
