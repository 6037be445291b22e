/** Reads a configuration file, JSON or YAML, into keys and values. What it cannot read is a problem, told with the place. */
import { readFileSync, statSync } from "node:fs";
import { parseDocument } from "yaml";
import { allKeys, type Entry, entryOfKey, isGroup, nearest } from "./catalogue.ts";
import { ConfigError, type Source, unknown } from "./problem.ts";

export interface Given {
  readonly entry: Entry;
  readonly source: Source;
  readonly value: unknown;
}

const MAX_FILE_BYTES = 1024 * 1024;

/** Throws a ConfigError for a file that cannot be read at all; what is wrong inside goes into `problems`. */
export function readConfigFile(path: string, problems: string[]): Given[] {
  const given: Given[] = [];
  const content = parse(path, read(path));
  if (content === null || content === undefined) return given;
  walk(content, "", { kind: "file", name: path }, given, problems);
  return given;
}

function read(path: string): string {
  try {
    const { size } = statSync(path);
    if (size > MAX_FILE_BYTES) throw new ConfigError([`the file ${path} has more than ${MAX_FILE_BYTES} bytes`]);
    return readFileSync(path, "utf8");
  } catch (fault) {
    if (fault instanceof ConfigError) throw fault;
    throw new ConfigError([`the configuration file ${path} cannot be read: ${reason(fault)}`]);
  }
}

function reason(fault: unknown): string {
  const { code } = fault as { code?: string };
  if (code === "ENOENT") return "there is no such file";
  if (code === "EACCES") return "access is denied";
  if (code === "EISDIR") return "it is a directory";
  return (fault as Error).message;
}

/** The text of a fault may quote the file, and with it a secret; only its place is told. */
function parse(path: string, text: string): unknown {
  if (path.endsWith(".json")) {
    try {
      return JSON.parse(text);
    } catch {
      throw new ConfigError([`the file ${path} is not JSON${jsonPlace(text)}`]);
    }
  }
  const document = parseDocument(text, { uniqueKeys: true });
  const [fault] = document.errors;
  if (fault === undefined) return document.toJS({ maxAliasCount: 100 });
  const line = fault.linePos?.[0].line;
  const what = fault.code === "DUPLICATE_KEY" ? "a key is given twice" : "it is not YAML";
  throw new ConfigError([`the file ${path}: ${what}${line === undefined ? "" : `, at line ${line}`}`]);
}

function jsonPlace(text: string): string {
  const [fault] = parseDocument(text).errors;
  return fault?.linePos === undefined ? "" : `; look at line ${fault.linePos[0].line}`;
}

function walk(content: unknown, prefix: string, source: Source, given: Given[], problems: string[]): void {
  if (typeof content !== "object" || content === null || Array.isArray(content)) {
    const where = prefix === "" ? `the file ${source.name}` : `${prefix.slice(0, -1)} (from the file ${source.name})`;
    problems.push(`${where} must hold names with values${prefix === "" ? "" : " of its own"}`);
    return;
  }
  for (const [name, value] of Object.entries(content)) {
    const key = prefix + name;
    const entry = name.includes(".") ? undefined : entryOfKey(key);
    if (entry !== undefined) given.push({ entry, source, value });
    else if (isGroup(key) && !name.includes(".")) {
      if (value !== null) walk(value, `${key}.`, source, given, problems);
    } else problems.push(unknown(key, source, value, nearest(key, allKeys())));
  }
}
