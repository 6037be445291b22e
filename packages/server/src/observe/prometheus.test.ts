import { expect, test } from "vitest";
import { Scrape } from "../../../../test/observe/prometheus-text.ts";
import { counter, counters, gauge, histogram, type Metric } from "../core/metric.ts";
import { Tally } from "../core/tally.ts";
import { prometheusText } from "./prometheus.ts";

const unexpected = (what: string, fault: unknown) => {
  throw new Error(what, { cause: fault });
};

test("a counter, a gauge and labels are rendered with help and type, in the order in which they are listed", async () => {
  const metrics = [
    counter("sluice_a_total", "What it counts.", () => 3),
    counters("sluice_b_total", "By kind.", "kind", () => ({ x: 1, y: 2.5 })),
    gauge("sluice_g", "Now.", () => -0.25),
  ];
  expect(await prometheusText(metrics, unexpected)).toBe(
    [
      "# HELP sluice_a_total What it counts.",
      "# TYPE sluice_a_total counter",
      "sluice_a_total 3",
      "# HELP sluice_b_total By kind.",
      "# TYPE sluice_b_total counter",
      'sluice_b_total{kind="x"} 1',
      'sluice_b_total{kind="y"} 2.5',
      "# HELP sluice_g Now.",
      "# TYPE sluice_g gauge",
      "sluice_g -0.25",
      "",
    ].join("\n"),
  );
});

test("the buckets of a histogram are cumulative up to +Inf, and its sum and count follow", async () => {
  const tally = new Tally([0.5, 1, 10]);
  for (const value of [0.25, 0.5, 5, 100]) tally.add(value);
  const text = await prometheusText([histogram("sluice_h_seconds", "How long.", tally)], unexpected);
  expect(text.split("\n").slice(2, -1)).toEqual([
    'sluice_h_seconds_bucket{le="0.5"} 2',
    'sluice_h_seconds_bucket{le="1"} 2',
    'sluice_h_seconds_bucket{le="10"} 3',
    'sluice_h_seconds_bucket{le="+Inf"} 4',
    "sluice_h_seconds_sum 105.75",
    "sluice_h_seconds_count 4",
  ]);
  const labelled: Metric = {
    kind: "histogram",
    name: "sluice_h",
    help: "By route.",
    read: (observe) => observe(tally, { route: "r" }),
  };
  const scrape = new Scrape(await prometheusText([labelled], unexpected));
  expect(scrape.value("sluice_h_bucket", { route: "r", le: "+Inf" })).toBe(4);
  expect(scrape.value("sluice_h_count", { route: "r" })).toBe(4);
});

test("help and label values are escaped so that a strict reader gets them back", async () => {
  const label = 'a "quote", a \\ and\na line';
  const metric: Metric = {
    kind: "gauge",
    name: "sluice_g",
    help: 'A "quote", a \\ and\na line.',
    read: (observe) => observe(1, { label }),
  };
  const text = await prometheusText([metric], unexpected);
  expect(text).toContain('# HELP sluice_g A "quote", a \\\\ and\\na line.\n');
  expect(new Scrape(text).value("sluice_g", { label })).toBe(1);
});

test("numbers of any size are valid, infinite ones included", async () => {
  const values = [0, 1e21, 1.5e-9, 2 ** 53, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN];
  const metric: Metric = {
    kind: "gauge",
    name: "sluice_g",
    help: "Any.",
    read: (observe) => {
      for (const [i, value] of values.entries()) observe(value, { i: String(i) });
    },
  };
  const scrape = new Scrape(await prometheusText([metric], unexpected));
  expect(scrape.samples("sluice_g").map(({ value }) => value)).toEqual(values);
});

test("a metric that cannot be read is reported by its name and costs no other; one without samples renders nothing", async () => {
  const reported: string[] = [];
  const fails = () => {
    throw new Error("on purpose");
  };
  const metrics: Metric[] = [
    counter("sluice_a_total", "A.", fails),
    { kind: "gauge", name: "sluice_b", help: "B.", read: async () => fails() },
    { kind: "histogram", name: "sluice_c", help: "C.", read: fails },
    { kind: "gauge", name: "sluice_d", help: "D.", read: () => {} },
    {
      kind: "gauge",
      name: "sluice_e",
      help: "E.",
      read: async (observe) => {
        await Promise.resolve();
        observe(1);
      },
    },
  ];
  const scrape = new Scrape(await prometheusText(metrics, (what) => reported.push(what)));
  expect([...scrape.families.keys()]).toEqual(["sluice_e"]);
  expect(reported.map((what) => /sluice_\w+/.exec(what)?.[0]).sort()).toEqual([
    "sluice_a_total",
    "sluice_b",
    "sluice_c",
  ]);
});
