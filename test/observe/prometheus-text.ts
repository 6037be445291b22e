/**
 * A strict parser of the Prometheus text format, version 0.0.4. The metrics tests read every scrape through it.
 *
 * Invariants: whatever a scraper might reject throws, with the line.
 */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly samples: Sample[];
}

const NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*";
const HELP = new RegExp(`^# HELP (${NAME}) (.+)$`);
const TYPE = new RegExp(`^# TYPE (${NAME}) (counter|gauge|histogram)$`);
const SAMPLE = new RegExp(`^(${NAME})(?:\\{(.*)\\})? (\\S+)$`);
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)/y;
const NUMBER = /^[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf)$|^NaN$/;

export class Scrape {
  readonly families = new Map<string, Family>();

  constructor(text: string) {
    if (!text.endsWith("\n")) throw new Error("the last line does not end");
    let family: Family | undefined;
    const lines = text.slice(0, -1).split("\n");
    for (let i = 0; i < lines.length; i++) {
      const line = lines[i]!;
      const help = HELP.exec(line);
      if (help) {
        const type = TYPE.exec(lines[++i] ?? "");
        if (type?.[1] !== help[1]) throw new Error(`no type follows ${line}`);
        if (this.families.has(help[1]!)) throw new Error(`${help[1]} comes twice`);
        family = { name: help[1]!, help: help[2]!, type: type![2]!, samples: [] };
        this.families.set(family.name, family);
      } else {
        if (family === undefined) throw new Error(`no family before ${line}`);
        family.samples.push(sampleOf(line, family));
      }
    }
    for (const one of this.families.values()) check(one);
  }

  /** The value of the only sample with these labels. */
  value(name: string, labels: Record<string, string> = {}): number {
    const found = this.samples(name).filter((sample) => matches(sample, labels));
    if (found.length !== 1) throw new Error(`${found.length} samples of ${name} ${JSON.stringify(labels)}`);
    return found[0]!.value;
  }

  /** The sum over all samples with these labels, among others; 0 when there is none. */
  sum(name: string, labels: Record<string, string> = {}): number {
    const found = this.samples(name).filter((sample) => matches(sample, labels));
    return found.reduce((total, { value }) => total + value, 0);
  }

  samples(name: string): readonly Sample[] {
    const family = this.families.get(name) ?? this.families.get(name.replace(/_(bucket|sum|count)$/, ""));
    if (family === undefined) throw new Error(`there is no metric ${name}`);
    return family.samples.filter((sample) => sample.name === name);
  }

  all(): readonly Sample[] {
    return [...this.families.values()].flatMap(({ samples }) => samples);
  }
}

function matches(sample: Sample, labels: Record<string, string>): boolean {
  return Object.entries(labels).every(([key, value]) => sample.labels[key] === value);
}

function sampleOf(line: string, family: Family): Sample {
  const match = SAMPLE.exec(line);
  if (!match) throw new Error(`this is no sample: ${line}`);
  const [, name, inner, number] = match;
  const allowed =
    family.type === "histogram" ? ["_bucket", "_sum", "_count"].map((end) => family.name + end) : [family.name];
  if (!allowed.includes(name!)) throw new Error(`${name} does not belong to ${family.name}`);
  if (!NUMBER.test(number!)) throw new Error(`${number} is no number: ${line}`);
  return { name: name!, labels: labelsOf(inner ?? "", line), value: Number(number!.replace("Inf", "Infinity")) };
}

function labelsOf(text: string, line: string): Record<string, string> {
  const labels: Record<string, string> = {};
  LABEL.lastIndex = 0;
  while (LABEL.lastIndex < text.length) {
    const match = LABEL.exec(text);
    if (!match) throw new Error(`these are no labels: ${line}`);
    if (match[1]! in labels) throw new Error(`a label comes twice: ${line}`);
    labels[match[1]!] = match[2]!.replace(/\\([\\"n])/g, (_, c: string) => (c === "n" ? "\n" : c));
  }
  return labels;
}

function check(family: Family): void {
  const { name, type, samples } = family;
  const seen = new Set(samples.map((sample) => sample.name + JSON.stringify(Object.entries(sample.labels).sort())));
  if (seen.size !== samples.length) throw new Error(`${name} has two samples with the same labels`);
  if (!/^sluice_[a-z0-9_]+$/.test(name)) throw new Error(`${name} is not one of our names`);
  if (name.endsWith("_total") !== (type === "counter")) throw new Error(`${name} is a ${type}`);
  if (type === "counter" && samples.some(({ value }) => !(value >= 0))) throw new Error(`${name} is below zero`);
  if (type === "histogram") checkHistogram(family);
}

/** For each label set, bounds rise, counts do not fall, and the last bucket holds everything. */
function checkHistogram({ name, samples }: Family): void {
  const sets = new Map<string, Sample[]>();
  for (const sample of samples) {
    const { le: _, ...rest } = sample.labels;
    const key = JSON.stringify(rest);
    sets.set(key, [...(sets.get(key) ?? []), sample]);
  }
  for (const [key, set] of sets) {
    const buckets = set.filter((sample) => sample.name === `${name}_bucket`);
    const bounds = buckets.map(({ labels }) => Number(labels.le!.replace("Inf", "Infinity")));
    const rises = bounds.every((bound, i) => i === 0 || bound > bounds[i - 1]!);
    const holds = buckets.every(({ value }, i) => i === 0 || value >= buckets[i - 1]!.value);
    const count = set.find((sample) => sample.name === `${name}_count`)?.value;
    const isWhole = bounds.at(-1) === Number.POSITIVE_INFINITY && buckets.at(-1)!.value === count;
    const hasSum = set.some((sample) => sample.name === `${name}_sum`);
    if (!rises || !holds || !isWhole || !hasSum) throw new Error(`${name} ${key} is no histogram`);
  }
}
