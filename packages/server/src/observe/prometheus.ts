/**
 * Renders metrics as Prometheus text, format version 0.0.4. Watch calls it for every scrape.
 *
 * Invariants: every synchronous read happens in one turn of the event loop, so those numbers belong together. A metric
 * that cannot be read is reported and omitted; the remaining ones are rendered. A metric without samples renders
 * nothing.
 */
import type { Labels, Metric } from "../core/metric.ts";
import type { Tally } from "../core/tally.ts";

export async function prometheusText(
  metrics: readonly Metric[],
  report: (what: string, fault: unknown) => void,
): Promise<string> {
  const render = async (metric: Metric): Promise<string> => {
    try {
      return await family(metric);
    } catch (fault) {
      report(`the metric ${metric.name} could not be read and is missing from this scrape`, fault);
      return "";
    }
  };
  return (await Promise.all(metrics.map(render))).join("");
}

async function family(metric: Metric): Promise<string> {
  const { kind, name, help } = metric;
  let samples = "";
  if (metric.kind === "histogram") {
    metric.read((tally, labels) => {
      samples += histogram(name, labelList(labels), tally);
    });
  } else {
    await metric.read((value, labels) => {
      samples += sample(name, labelList(labels), value);
    });
  }
  return samples === "" ? "" : `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${kind}\n${samples}`;
}

/** Buckets are cumulative: each counts every value up to its bound, and the last, +Inf, counts all. */
function histogram(name: string, labels: string, { bounds, counts, sum }: Tally): string {
  const start = labels === "" ? "" : `${labels},`;
  let buckets = "";
  let total = 0;
  for (const [i, count] of counts.entries()) {
    total += count;
    buckets += sample(`${name}_bucket`, `${start}le="${number(bounds[i] ?? Number.POSITIVE_INFINITY)}"`, total);
  }
  return buckets + sample(`${name}_sum`, labels, sum) + sample(`${name}_count`, labels, total);
}

function sample(name: string, labels: string, value: number): string {
  return labels === "" ? `${name} ${number(value)}\n` : `${name}{${labels}} ${number(value)}\n`;
}

function labelList(labels: Labels = {}): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}="${escapeLabel(value)}"`)
    .join(",");
}

function number(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  return value === Number.NEGATIVE_INFINITY ? "-Inf" : String(value);
}

function escapeHelp(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

function escapeLabel(text: string): string {
  return escapeHelp(text).replaceAll('"', '\\"');
}
