// Turns outcomes into the two files of a run, and into its output. main.ts calls writeReport after every scenario, so that an
// interrupted run keeps its measurements. The JSON holds every value of every round; the Markdown holds the targets and the
// medians with their ranges.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Conditions } from "./conditions.ts";
import type { Machine } from "./machine.ts";
import { DEFAULT_SERVER, type Options } from "./options.ts";
import { formatSpread } from "./rounds.ts";
import { OURS, type Outcome } from "./scenario.ts";
import { median, range } from "./statistics.ts";

export interface ScenarioReport {
  readonly name: string;
  readonly title: string;
  readonly outcome?: Outcome;
  readonly conditions?: Conditions;
  /** The error, if there is no outcome. */
  readonly failure?: string;
  /** The missing requirement of this machine, if there is no outcome. */
  readonly leftOut?: string;
}

export interface Report {
  readonly startedAt: string;
  readonly options: Pick<Options, "rounds" | "seconds" | "sustainedSeconds" | "quick" | "server">;
  readonly machine: Machine;
  readonly scenarios: ScenarioReport[];
}

export function writeReport(directory: string, report: Report): { json: string; markdown: string } {
  mkdirSync(directory, { recursive: true });
  const stem = report.startedAt.replace(/[:.]/g, "-");
  const json = join(directory, `${stem}.json`);
  const markdown = join(directory, `${stem}.md`);
  writeFileSync(json, `${JSON.stringify(withMedians(report), null, 2)}\n`);
  writeFileSync(markdown, renderMarkdown(report));
  return { json, markdown };
}

function withMedians(report: Report): unknown {
  return {
    ...report,
    scenarios: report.scenarios.map(({ outcome, ...rest }) => ({
      ...rest,
      outcome: outcome && {
        ...outcome,
        figures: outcome.figures.map((figure) => ({ ...figure, median: median(figure.values) })),
        comparisons: outcome.comparisons.map((comparison) => ({
          ...comparison,
          median: median(comparison.ratios),
          range: range(comparison.ratios),
        })),
      },
    })),
  };
}

export function renderMarkdown(report: Report): string {
  const { machine, options } = report;
  const versions = Object.entries(machine.versions).map(([name, version]) => `${name} ${version}`);
  return [
    `# Benchmark of ${report.startedAt}`,
    "",
    `${machine.cores} cores (${machine.processor}), ${machine.memoryGiB} GiB, ${machine.system}, ${machine.fileSystem}; ` +
      `${versions.join(", ")}. ${options.rounds} rounds of ${options.seconds} s. Medians, with the range in brackets.`,
    ...(options.server === DEFAULT_SERVER
      ? []
      : ["", `**"${OURS}" is not this checkout here, but ${options.server}.**`]),
    ...(options.quick ? ["", "**A quick run: it shows that the harness works and measures nothing.**"] : []),
    "",
    "## Targets",
    "",
    "| scenario | what | target | measured | met |",
    "|---|---|---|---|---|",
    ...report.scenarios.flatMap(targetRows),
    "",
    "## Figures",
    "",
    "| scenario | contender | what | measured | ours / contender |",
    "|---|---|---|---|---|",
    ...report.scenarios.flatMap(figureRows),
    "",
    "## Conditions",
    "",
    "Just before each scenario: processors in use by other work, and one small append with fdatasync.",
    "",
    "| scenario | busy | sync p50 | sync p99 |",
    "|---|---|---|---|",
    ...report.scenarios.flatMap(conditionRows),
    ...notes(report.scenarios),
    "",
  ].join("\n");
}

function targetRows({ name, title, outcome, failure, leftOut }: ScenarioReport): string[] {
  if (leftOut !== undefined) return [`| ${name} | ${title} | | ${leftOut} | not run |`];
  if (!outcome) return [`| ${name} | ${title} | | failed: ${oneLine(failure ?? "no result")} | **no** |`];
  return outcome.targets.map(
    ({ what, target, measured, met }) =>
      `| ${name} | ${what} | ${target} | ${measured} | ${met === undefined ? "unclear" : met ? "yes" : "**no**"} |`,
  );
}

function figureRows({ name, outcome }: ScenarioReport): string[] {
  return (outcome?.figures ?? []).map((figure) => {
    const ratio = outcome!.comparisons.find(
      (comparison) => comparison.peer === figure.contender && comparison.what === figure.what,
    );
    const measured = `${formatSpread(figure.values)} ${figure.unit}`;
    return `| ${name} | ${figure.contender} | ${figure.what} | ${measured} | ${ratio ? `${formatSpread(ratio.ratios)}x` : ""} |`;
  });
}

function conditionRows({ name, conditions }: ScenarioReport): string[] {
  if (!conditions) return [];
  const { busyShare, syncP50Ms, syncP99Ms } = conditions;
  return [`| ${name} | ${Math.round(busyShare * 100)}% | ${syncP50Ms.toFixed(2)} ms | ${syncP99Ms.toFixed(2)} ms |`];
}

function notes(scenarios: readonly ScenarioReport[]): string[] {
  const lines = scenarios.flatMap(({ name, outcome }) => [
    ...(outcome?.faults ?? []).map((fault) => `- **${name}**: ${fault}`),
    ...(outcome?.notes ?? []).map((note) => `- ${name}: ${note}`),
  ]);
  return lines.length > 0 ? ["", "## Notes", "", ...lines] : [];
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").replaceAll("|", "/").slice(0, 300);
}
