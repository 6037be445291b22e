/**
 * Renders the metrics of one server as Prometheus text: numbers through OpenTelemetry's observable instruments, histograms from
 * our own tallies, both by its serializer. Nothing global: the meter provider is ours alone. Opened by compose.
 */
import { ValueType } from "@opentelemetry/api";
import { PrometheusSerializer } from "@opentelemetry/exporter-prometheus";
import {
  AggregationTemporality,
  DataPointType,
  type HistogramMetricData,
  MeterProvider,
  MetricReader,
  type ScopeMetrics,
} from "@opentelemetry/sdk-metrics";
import type { Metric, NumberMetric, TallyMetric } from "../core/metric.ts";

const SCOPE = "sluice";
/** Far more label sets than any of our metrics has. */
const MAX_LABEL_SETS = 5_000;

class PullReader extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

export class Registry {
  private readonly reader = new PullReader({ cardinalitySelector: () => MAX_LABEL_SETS });
  private readonly provider = new MeterProvider({ readers: [this.reader] });
  private readonly meter = this.provider.getMeter(SCOPE);
  private readonly tallies: TallyMetric[] = [];
  // Without a prefix, times, and the labels of target and scope.
  private readonly serializer = new PrometheusSerializer("", false, undefined, true, true);

  constructor(private readonly report: (what: string, fault: unknown) => void) {}

  add(metrics: readonly Metric[]): void {
    for (const metric of metrics) {
      if (metric.kind === "histogram") this.tallies.push(metric);
      else this.addNumber(metric);
    }
  }

  private addNumber({ kind, name, help, read }: NumberMetric): void {
    const options = { description: help, valueType: ValueType.DOUBLE };
    const instrument =
      kind === "counter"
        ? this.meter.createObservableCounter(name, options)
        : this.meter.createObservableGauge(name, options);
    instrument.addCallback((result) => read((value, labels) => result.observe(value, labels)));
  }

  async render(): Promise<string> {
    const { resourceMetrics, errors } = await this.reader.collect();
    for (const fault of errors) this.report("reading a metric failed", fault);
    const { resource, scopeMetrics } = resourceMetrics;
    const tallies: ScopeMetrics = { scope: { name: SCOPE }, metrics: this.tallies.map(histogramOf) };
    return this.serializer.serialize({ resource, scopeMetrics: [...scopeMetrics, tallies] });
  }

  async close(): Promise<void> {
    await this.provider.shutdown();
  }
}

function histogramOf({ name, help, read }: TallyMetric): HistogramMetricData {
  const dataPoints: HistogramMetricData["dataPoints"] = [];
  read(({ bounds, counts, sum, count }, labels = {}) => {
    const buckets = { boundaries: [...bounds], counts: [...counts] };
    dataPoints.push({ startTime: [0, 0], endTime: [0, 0], attributes: labels, value: { buckets, sum, count } });
  });
  return {
    descriptor: { name, description: help, unit: "", valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
    dataPointType: DataPointType.HISTOGRAM,
    dataPoints,
  };
}
