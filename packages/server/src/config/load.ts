/**
 * Builds the settings from file, environment and flags. A flag beats the environment, and the environment beats the
 * file. The command line calls `loadSettings`; `createServer` calls `settingsFrom` with its options.
 *
 * Invariants: all problems are found at once. Every given value is checked, even if another source beats it. Nothing
 * unknown is ignored.
 */
import {
  allKeys,
  allVariables,
  type Entry,
  entryOfFlag,
  entryOfKey,
  entryOfVariable,
  isGroup,
  nearest,
  OTHER_VARIABLES,
} from "./catalog.ts";
import { complete, disagreements } from "./cross-checks.ts";
import { type Given, readConfigFile } from "./file.ts";
import { ConfigError, malformed, type Source, unknown } from "./problem.ts";
import { type Settings, type SettingsInput, schema } from "./schema.ts";

/** A flag of the command line: `--port 80`, or `--set stream.pageBytes=80` as that key. */
export interface FlagGiven {
  readonly flag: string;
  /** Undefined for a flag without a value. */
  readonly text?: string | undefined;
}

export interface Sources {
  readonly flags: readonly FlagGiven[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Beats SLUICE_CONFIG. */
  readonly configFile?: string | undefined;
}

export interface Loaded {
  readonly settings: Settings;
  /** The source of each setting that is not at its default. */
  readonly origins: ReadonlyMap<string, Source>;
}

/** Throws a ConfigError that names every problem. */
export function loadSettings(sources: Sources, moreProblems: readonly string[] = []): Loaded {
  const problems: string[] = [...moreProblems];
  const file = sources.configFile ?? sources.env.SLUICE_CONFIG;
  // From the weakest to the strongest.
  const layers = [
    file === undefined || file === "" ? [] : fromFile(file, problems),
    fromEnvironment(sources.env, problems),
    fromFlags(sources.flags, problems),
  ];
  const all = layers.flat();
  for (const { entry, source, value } of all) {
    if (value === undefined || !entry.schema.safeParse(value).success) problems.push(malformed(entry, source, value));
  }
  const chosen = chooseEngine(layers, problems);
  if (problems.length > 0) throw new ConfigError(problems);
  const winners = new Map(chosen.flat().map((given) => [given.entry.key, given]));
  const settings = complete(schema.parse(nested([...winners.values()])));
  const conflicts = disagreements(settings);
  if (conflicts.length > 0) throw new ConfigError(conflicts);
  return { settings, origins: new Map([...winners].map(([key, { source }]) => [key, source])) };
}

function fromFile(path: string, problems: string[]): Given[] {
  try {
    return readConfigFile(path, problems);
  } catch (fault) {
    if (!(fault instanceof ConfigError)) throw fault;
    problems.push(...fault.problems);
    return [];
  }
}

function fromEnvironment(env: Sources["env"], problems: string[]): Given[] {
  const given: Given[] = [];
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith("SLUICE_") || text === undefined || Object.hasOwn(OTHER_VARIABLES, name)) continue;
    const source: Source = { kind: "environment", name };
    const entry = entryOfVariable(name);
    if (entry !== undefined) given.push({ entry, source, value: entry.fromText(text) });
    else problems.push(unknown(name, source, text, nearest(name, allVariables())));
  }
  return given;
}

function fromFlags(flags: readonly FlagGiven[], problems: string[]): Given[] {
  const given: Given[] = [];
  for (const { flag, text } of flags) {
    const source: Source = { kind: "flag", name: flag };
    if (flag === "--set") addSet(text ?? "", given, problems);
    else {
      const entry = entryOfFlag(flag)!;
      given.push({ entry, source, value: text === undefined ? true : entry.fromText(text) });
    }
  }
  return given;
}

function addSet(text: string, given: Given[], problems: string[]): void {
  const source: Source = { kind: "flag", name: "--set" };
  const at = text.indexOf("=");
  const key = at < 0 ? text : text.slice(0, at);
  const entry = entryOfKey(key);
  if (at < 0) problems.push(`--set ${key} has no value; it must be KEY=VALUE, like --set stream.pageBytes=65536`);
  else if (entry !== undefined) given.push({ entry, source, value: entry.fromText(text.slice(at + 1)) });
  else if (isGroup(key))
    problems.push(`--set ${key}: this is a group of settings; name one of them, like ${oneOf(key)}`);
  else problems.push(unknown(key, source, text.slice(at + 1), nearest(key, allKeys())));
}

function oneOf(group: string): string {
  return allKeys().find((key) => key.startsWith(`${group}.`)) ?? "projects.P.secrets";
}

const ENGINE_KEYS = ["data", "memory", "redis.urls"];

const choosesEngine = ({ entry, value }: Given): boolean =>
  entry.key === "data" || (entry.key === "memory" && value === true) || (entry.key === "redis.urls" && !isEmpty(value));

const isEmpty = (value: unknown): boolean => Array.isArray(value) && value.length === 0;

/**
 * A directory, memory and Redis exclude each other. The strongest source that names one chooses the engine, and weaker
 * sources are ignored for it. Two in the same source are a contradiction.
 */
function chooseEngine(layers: readonly Given[][], problems: string[]): readonly Given[][] {
  let isChosen = false;
  return [...layers]
    .reverse()
    .map((layer) => {
      if (isChosen) return layer.filter(({ entry }) => !ENGINE_KEYS.includes(entry.key));
      const choices = layer.filter(choosesEngine);
      const keys = new Set(choices.map(({ entry }) => entry.key));
      if (keys.size > 1) {
        const names = choices.map(({ entry, source }) => (source.kind === "file" ? entry.key : source.name));
        problems.push(`${[...new Set(names)].join(" and ")} exclude each other; give one of them`);
      }
      isChosen = keys.size > 0;
      return layer;
    })
    .reverse();
}

function nested(given: readonly Given[]): SettingsInput {
  const root: Record<string, unknown> = {};
  for (const { entry, value } of given) {
    const names = entry.key.split(".");
    const last = names.pop()!;
    let place = root;
    for (const name of names) {
      if (!Object.hasOwn(place, name)) Object.defineProperty(place, name, { value: {}, enumerable: true });
      place = place[name] as Record<string, unknown>;
    }
    place[last] = value;
  }
  return root as SettingsInput;
}

/** The settings for the options of an embedding program, which may authorize callers itself. Throws a ConfigError. */
export function settingsFrom(options: SettingsInput, isGuarded = false): Settings {
  if (Object.hasOwn(options, "data") && options.data === undefined) {
    throw new ConfigError(["data is undefined; give the path of a directory, or memory: true"]);
  }
  // Settings that were loaded before name the default directory beside `memory: true`.
  if (options.memory && options.data !== undefined && options.data !== entryOfKey("data")!.initial) {
    throw new ConfigError(["data and memory exclude each other; give one of them"]);
  }
  const parsed = schema.safeParse(options);
  if (!parsed.success) throw new ConfigError(parsed.error.issues.map((issue) => issueText(options, issue)));
  const settings = complete(parsed.data, isGuarded);
  const conflicts = disagreements(settings);
  if (conflicts.length > 0) throw new ConfigError(conflicts);
  return settings;
}

function issueText(
  options: SettingsInput,
  issue: { readonly code: string; readonly path: readonly PropertyKey[]; readonly keys?: readonly string[] },
): string {
  const source: Source = { kind: "options", name: "" };
  const path = issue.path.map(String);
  if (issue.code === "unrecognized_keys") {
    const key = [...path, issue.keys?.[0] ?? ""].join(".");
    return unknown(key, source, undefined, nearest(key, allKeys()));
  }
  // An issue may lie within a list; the setting is the list.
  let entry: Entry | undefined;
  let length = path.length;
  while (entry === undefined && length > 0) entry = entryOfKey(path.slice(0, length--).join("."));
  if (entry === undefined) return `${path.join(".")} (from the options) is not of the allowed form`;
  const value = entry.key
    .split(".")
    .reduce<unknown>((at, name) => (at as Record<string, unknown> | undefined)?.[name], options);
  return malformed(entry, source, value);
}
