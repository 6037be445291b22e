import { expect, test } from "vitest";
import { Scrape } from "./prometheus-text.ts";

const HEAD = "# HELP sluice_a_total What it is.\n# TYPE sluice_a_total counter\n";

test("a scrape is parsed into families, labels and values", () => {
  const scrape = new Scrape(`${HEAD}sluice_a_total{kind="x\\"y\\n"} 1.5e+3\nsluice_a_total{kind="z"} 2\n`);
  expect(scrape.value("sluice_a_total", { kind: 'x"y\n' })).toBe(1_500);
  expect(scrape.sum("sluice_a_total")).toBe(1_502);
});

test("a line that a scraper might reject is refused", () => {
  const gauge = "# HELP sluice_g g\n# TYPE sluice_g gauge\n";
  const histogram = "# HELP sluice_h h\n# TYPE sluice_h histogram\n";
  for (const broken of [
    `${HEAD}sluice_a_total 1`,
    `${HEAD}sluice_b_total 1\n`,
    `${HEAD}sluice_a_total x\n`,
    `${HEAD}sluice_a_total -1\n`,
    `${HEAD}sluice_a_total{a="1"b="2"} 1\n`,
    `${HEAD}sluice_a_total{a="1",a="2"} 1\n`,
    `${HEAD}sluice_a_total{a="1"} 1\nsluice_a_total{a="1"} 1\n`,
    `${HEAD}${HEAD}`,
    "sluice_a_total 1\n",
    "# HELP sluice_a_total x\n# TYPE sluice_a_total gauge\nsluice_a_total 1\n",
    `${gauge}\nsluice_g 1\n`,
    `${histogram}sluice_h_count 1\nsluice_h_sum 1\nsluice_h_bucket{le="1"} 2\nsluice_h_bucket{le="+Inf"} 1\n`,
    `${histogram}sluice_h_count 2\nsluice_h_sum 1\nsluice_h_bucket{le="1"} 1\nsluice_h_bucket{le="+Inf"} 1\n`,
    `${histogram}sluice_h_count 1\nsluice_h_sum 1\nsluice_h_bucket{le="1"} 1\n`,
  ]) {
    expect(() => new Scrape(broken), broken).toThrow();
  }
});
