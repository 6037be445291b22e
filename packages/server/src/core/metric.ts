/**
 * A metric as described by the part that owns its number: a name, a meaning, and a function that reads it. Each part lists its
 * own; compose collects the lists, and `observe` renders them. A metric is read once per scrape, so the hot path only counts.
 *
 * Invariants: labels come from fixed lists (a route, a kind, an outcome), never from clients. No name is listed twice, and no
 * read reports the same labels twice.
 */
import type { Tally } from "./tally.ts";

export type Labels = Readonly<Record<string, string>>;
export type Observe<T> = (value: T, labels?: Labels) => void;

interface Described {
  /** Starts with `sluice_`. The unit comes last, except that a counter's name ends with `_total`. */
  readonly name: string;
  readonly help: string;
}

export interface NumberMetric extends Described {
  /** A counter only grows while the process lives. */
  readonly kind: "counter" | "gauge";
  /** Reports each current value; it may report none. */
  read(observe: Observe<number>): void | Promise<void>;
}

export interface TallyMetric extends Described {
  readonly kind: "histogram";
  read(observe: Observe<Tally>): void;
}

export type Metric = NumberMetric | TallyMetric;

export function counter(name: string, help: string, read: () => number): Metric {
  return { kind: "counter", name, help, read: (observe) => observe(read()) };
}

export function gauge(name: string, help: string, read: () => number): Metric {
  return { kind: "gauge", name, help, read: (observe) => observe(read()) };
}

export function histogram(name: string, help: string, tally: Tally): Metric {
  return { kind: "histogram", name, help, read: (observe) => observe(tally) };
}

/** One number per value of a single label. */
export function counters(
  name: string,
  help: string,
  label: string,
  read: () => Readonly<Record<string, number>>,
): Metric {
  return {
    kind: "counter",
    name,
    help,
    read(observe) {
      for (const [key, value] of Object.entries(read())) observe(value, { [label]: key });
    },
  };
}
