/**
 * The settings as a list, each with its key, variable and flag, collected by walking the schema. File, environment and
 * flag parsing look names up here; so do the reference and "did you mean".
 */
import { z } from "zod";
import { isProjectName } from "../core/project.ts";
import { type About, aboutOf } from "../core/setting.ts";
import { schema } from "./schema.ts";
import { projectShape } from "./server-settings.ts";

export interface Entry extends About {
  /** With dots between groups: `stream.bodyBytes`. */
  readonly key: string;
  readonly env: string;
  readonly schema: z.ZodType;
}

/** Stands for the name of a project where the keys of all projects are listed. */
export const ANY_PROJECT = "P";

/** Variables that are not settings of the server. */
export const OTHER_VARIABLES: Readonly<Record<string, string>> = {
  SLUICE_CONFIG: "The configuration file, if --config does not name one.",
  SLUICE_URL: "The server that commands like `sluice stream` talk to, if --url does not name one.",
  SLUICE_PROJECT: "The project that they use, if --project does not name one.",
  SLUICE_TOKEN: "The token that they send, if --token does not give one.",
  SLUICE_CONTEXT: "The context that they use, if --context does not name one.",
};

const PROJECT_VARIABLES: Readonly<Record<string, keyof typeof projectShape>> = {
  SLUICE_SECRET_: "secrets",
  SLUICE_JWKS_: "jwks",
  SLUICE_ISSUER_: "issuer",
  SLUICE_AUDIENCE_: "audience",
  SLUICE_CHANNELS_OF_: "channel",
};

const entries: readonly Entry[] = entriesOf(schema.shape, "");
const byKey = new Map(entries.map((entry) => [entry.key, entry]));
const byEnv = new Map(entries.map((entry) => [entry.env, entry]));
const byFlag = new Map(entries.flatMap((entry) => (entry.flag === undefined ? [] : [[entry.flag, entry]])));

/** Every public setting, in the order of the schema; those of projects once, under `projects.P`. */
export function allEntries(): readonly Entry[] {
  return entries.filter(({ key }) => !isInternal(key));
}

/** Whether a setting is checked like all settings but not documented. */
export function isInternal(key: string): boolean {
  return key.startsWith("internal.");
}

function entriesOf(shape: Readonly<Record<string, z.core.$ZodType>>, prefix: string): Entry[] {
  return Object.entries(shape).flatMap(([name, part]) => {
    const key = prefix + name;
    if (key === "projects") return projectEntries(ANY_PROJECT);
    const about = aboutOf(part);
    if (about !== undefined) return [{ ...about, key, env: about.env ?? envName(key), schema: part as z.ZodType }];
    return entriesOf(groupShape(part), `${key}.`);
  });
}

function groupShape(part: z.core.$ZodType): Readonly<Record<string, z.core.$ZodType>> {
  const inner = part instanceof z.ZodPrefault ? part.unwrap() : part;
  if (!(inner instanceof z.ZodObject))
    throw new Error("the schema contains a value that is neither a setting nor a group");
  return inner.shape;
}

function projectEntries(project: string): Entry[] {
  return Object.entries(PROJECT_VARIABLES).map(([prefix, name]) => {
    const part = projectShape[name];
    return { ...aboutOf(part)!, key: `projects.${project}.${name}`, env: prefix + project, schema: part };
  });
}

/** `stream.bodyBytes` is SLUICE_STREAM_BODY_BYTES. */
function envName(key: string): string {
  return `SLUICE_${key
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .replaceAll(".", "_")
    .toUpperCase()}`;
}

export function entryOfKey(key: string): Entry | undefined {
  const [group, project, name, ...more] = key.split(".");
  if (group !== "projects") return byKey.get(key);
  if (project === undefined || name === undefined || more.length > 0 || !isProjectName(project)) return undefined;
  return projectEntries(project).find((entry) => entry.key === key);
}

export function entryOfVariable(variable: string): Entry | undefined {
  const known = byEnv.get(variable);
  if (known !== undefined && !known.key.startsWith("projects.")) return known;
  for (const prefix of Object.keys(PROJECT_VARIABLES)) {
    const project = variable.slice(prefix.length);
    if (variable.startsWith(prefix) && isProjectName(project)) {
      return projectEntries(project).find(({ env }) => env === variable);
    }
  }
  return undefined;
}

export function entryOfFlag(flag: string): Entry | undefined {
  return byFlag.get(flag);
}

/** Whether this is the key of a group of settings. */
export function isGroup(key: string): boolean {
  return (
    key === "projects" || /^projects\.[^.]+$/.test(key) || entries.some((entry) => entry.key.startsWith(`${key}.`))
  );
}

/** Old names of settings, with their new names. */
const RENAMED: ReadonlyMap<string, string> = new Map(
  ["readers", "sseMs"].flatMap((name): [string, string][] => [
    [`live.${name}`, `tail.${name}`],
    [envName(`live.${name}`), envName(`tail.${name}`)],
  ]),
);

/** The name that was probably meant: the new name of an old one, or else a similar one. */
export function nearest(name: string, names: readonly string[]): string | undefined {
  const renamed = RENAMED.get(name);
  if (renamed !== undefined) return renamed;
  const plain = (text: string) => text.toLowerCase().replace(/[^a-z0-9]/g, "");
  const wanted = plain(name);
  let best: string | undefined;
  let bestDistance = Math.max(2, Math.floor(wanted.length / 4)) + 1;
  for (const candidate of names) {
    const distance = editDistance(wanted, plain(candidate));
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

export const allKeys = (): string[] => allEntries().map(({ key }) => key);
export const allVariables = (): string[] => [...allEntries().map(({ env }) => env), ...Object.keys(OTHER_VARIABLES)];

/** The number of characters to insert, delete or change. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}
