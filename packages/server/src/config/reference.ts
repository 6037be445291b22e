/**
 * Settings as text: the reference of all settings (`config docs`, docs/configuration.md), and the effective settings
 * with their sources (`config print`).
 *
 * Invariants: both mask secrets.
 */
import { ANY_PROJECT, allEntries, type Entry, entryOfKey, isInternal, OTHER_VARIABLES } from "./catalog.ts";
import type { Loaded } from "./load.ts";
import { shownValue, sourceText } from "./problem.ts";
import { HEADINGS } from "./schema.ts";
import { projectShape } from "./server-settings.ts";

export interface Effective {
  readonly key: string;
  readonly value: string;
  readonly from: string;
}

/** Every setting, including those of each configured project. */
export function effectiveSettings({ settings, origins }: Loaded): Effective[] {
  const projects = Object.keys(settings.projects).flatMap((project) =>
    Object.keys(projectShape).map((name) => entryOfKey(`projects.${project}.${name}`)!),
  );
  const general = allEntries().filter(({ key }) => !key.startsWith(`projects.${ANY_PROJECT}.`));
  // An internal setting is shown if it was given, because an operator must see every difference from the defaults.
  const internal = [...origins.keys()].filter(isInternal).map((key) => entryOfKey(key)!);
  return [...general, ...projects.filter(({ key }) => origins.has(key)), ...internal].map((entry) => {
    const origin = origins.get(entry.key);
    const value = shownValue(entry, valueAt(settings, entry.key));
    return { key: entry.key, value, from: origin === undefined ? "default" : sourceText(origin) };
  });
}

function valueAt(settings: object, key: string): unknown {
  return key.split(".").reduce<unknown>((at, name) => (at as Record<string, unknown> | undefined)?.[name], settings);
}

const INTRODUCTION = `# Configuration

Every setting of \`sluice serve\`, with its default. \`sluice config docs\` generates this page: change the schema, not the file.

Set a value in a file, in the environment, or as a flag. A flag beats the environment, and the environment beats the file. Every setting
can be a flag: \`--set KEY=VALUE\`. \`--config FILE\` or \`SLUICE_CONFIG\` names the file: YAML, or JSON if its name ends in \`.json\`. In the
file, the part of a key before the dot is a group:

\`\`\`yaml
port: 8080
data: /var/lib/sluice
stream:
  bodyBytes: 1048576
projects:
  default:
    secrets: ["at-least-32-characters-of-randomness"]
\`\`\`

- With an unknown or malformed setting the server does not start: it lists all of them and exits with 2.
- Numbers are whole and decimal, in the unit at the end of their name; there are no suffixes.
- In variables and flags, commas separate the items of a list, and spaces separate secrets.
- \`sluice config check\` checks without starting. \`sluice config print\` shows what is in force, and the source of each value.
- \`data\`, \`memory\` and \`redis.urls\` exclude each other: the strongest source that sets one of them chooses the store.
- Without any key under \`projects\` the server answers every caller. So it listens on loopback addresses only, unless \`--no-auth\` is
  given.
- In Kubernetes, a service named \`sluice\` puts variables like \`SLUICE_PORT=tcp://...\` into every pod, and the server does not start.
  Set \`enableServiceLinks: false\` in the pod.
`;

export function referenceText(): string {
  const sections = Object.entries(HEADINGS).map(([group, title]) => section(group, title));
  return `${[INTRODUCTION, ...sections, otherVariables()].join("\n")}`;
}

function section(group: string, title: string): string {
  const entries = allEntries().filter(({ key }) => groupOf(key) === group);
  const heading = group === "" ? `## ${title}` : `## ${title}: \`${group}\``;
  return `${heading}\n\n${entries.map(paragraph).join("\n")}`;
}

function groupOf(key: string): string {
  return key.includes(".") ? key.slice(0, key.indexOf(".")) : "";
}

function paragraph(entry: Entry): string {
  const { key, env, flag, operand, form, meaning, initial, derived } = entry;
  const names = [`\`${env}\``];
  if (flag !== undefined) names.push(`\`${flag}${isSwitch(entry) ? "" : ` ${operand}`}\``);
  const shown = derived ?? (initial === undefined ? "none" : `\`${shownValue(entry, initial)}\``);
  return `- **\`${key}\`** (${names.join(", ")}): ${meaning}\n  Default ${shown}; ${form}.\n`;
}

/** Whether its flag takes no value. */
export function isSwitch({ initial }: Pick<Entry, "initial">): boolean {
  return typeof initial === "boolean";
}

function otherVariables(): string {
  const lines = Object.entries(OTHER_VARIABLES).map(([name, meaning]) => `- \`${name}\`: ${meaning}`);
  return `## Other variables\n\n${lines.join("\n")}\n`;
}
