/**
 * Events of sessions as data points, for a program that counts or keeps them. The routes, the service and sources
 * report events; compose passes the sink. Without a sink events are only counted. Metrics use the counts, which carry
 * no ids.
 */
export type EventCategory = "fanout" | "subscription" | "session" | "cleanup" | "publish" | "publish_error" | "http";

export type EventType =
  | "fanout"
  | "fanout_queued"
  | "subscribe"
  | "unsubscribe"
  | "session_create"
  | "session_touch"
  | "session_delete"
  | "session_expire"
  | "cleanup_batch"
  | "publish"
  | "publish_error"
  | "http";

/**
 * Blobs are streamId, sessionId, event type and error type. Doubles are a count, a time in ms and values of the event.
 */
export interface MetricPoint {
  readonly blobs: readonly [streamId: string, sessionId: string, eventType: string, errorType: string];
  readonly doubles: readonly [count: number, latencyMs: number, ...values: number[]];
  readonly indexes: readonly [category: EventCategory];
}

/** Must not throw. */
export type MetricSink = (point: MetricPoint) => void;

const CATEGORY: Readonly<Record<EventType, EventCategory>> = {
  fanout: "fanout",
  fanout_queued: "fanout",
  subscribe: "subscription",
  unsubscribe: "subscription",
  session_create: "session",
  session_touch: "session",
  session_delete: "session",
  session_expire: "session",
  cleanup_batch: "cleanup",
  publish: "publish",
  publish_error: "publish_error",
  http: "http",
};

export interface Happened {
  readonly stream?: string | undefined;
  readonly session?: string | undefined;
  readonly error?: string | undefined;
  readonly count?: number | undefined;
  readonly latencyMs?: number | undefined;
  readonly values?: readonly number[] | undefined;
}

/** Counts every event and passes it to the sink. */
export class Events {
  readonly counts = new Map<EventType, number>();

  constructor(private readonly sink: MetricSink | undefined) {
    for (const type of Object.keys(CATEGORY)) this.counts.set(type as EventType, 0);
  }

  tell(
    type: EventType,
    { stream = "", session = "", error = "", count = 1, latencyMs = 0, values = [] }: Happened = {},
  ): void {
    this.counts.set(type, this.counts.get(type)! + 1);
    this.sink?.({
      blobs: [stream, session, type, error],
      doubles: [count, latencyMs, ...values],
      indexes: [CATEGORY[type]],
    });
  }
}
