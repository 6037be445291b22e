/**
 * A metric as the part that owns its number describes it: a name, what it means, and how to read it. Each part lists its own;
 * compose collects the lists, and `observe` renders them. A metric is read once per scrape, so the hot path only counts.
 *
 * Invariants: labels come from fixed lists (a route, a kind, an outcome), never from what a client sent. No name is listed twice,
 * and no read tells the same labels twice.
 */
import type { Tally } from "./tally.ts";

export type Labels = Readonly<Record<string, string>>;
export type Observe<T> = (value: T, labels?: Labels) => void;

interface Described {
  /** Starts with `sluice_`; a counter's ends with `_total`, and a unit stands before that. */
  readonly name: string;
  readonly help: string;
}

export interface NumberMetric extends Described {
  /** A counter only grows while the process lives. */
  readonly kind: "counter" | "gauge";
  /** Tells each current value; it may tell none. */
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
