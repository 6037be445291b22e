/** Reads a configuration file, JSON or YAML, into keys and values. What it cannot read is a problem, told with the place. */
import { readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import type { Document } from "yaml";
import { allKeys, type Entry, entryOfKey, isGroup, nearest } from "./catalogue.ts";
import { jsonFault } from "./json-fault.ts";
import { ConfigError, type Source, unknown } from "./problem.ts";

export interface Given {
  readonly entry: Entry;
  readonly source: Source;
  readonly value: unknown;
}

/** Loaded for those who have such a file: it takes a tenth of the time that a command needs to start. */
const loadYaml = (): typeof import("yaml") => createRequire(import.meta.url)("yaml");

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

/** The text of a fault may quote the file, and with it a secret; only its kind and its place are told. */
function parse(path: string, text: string): unknown {
  if (path.endsWith(".json")) {
    const fault = jsonFault(text);
    if (fault !== undefined) throw new ConfigError([`the file ${path} is not JSON that can be used: ${fault}`]);
    return JSON.parse(text);
  }
  const document = loadYaml().parseDocument(text, { uniqueKeys: true });
  if (document.errors.length > 0) throw new ConfigError([`the file ${path}: ${yamlFault(document, text)}`]);
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch {
    throw new ConfigError([`the file ${path}: an alias (*name) stands for nothing, or for too much`]);
  }
}

const YAML_FAULTS: Readonly<Record<string, string>> = {
  DUPLICATE_KEY: "a key is given twice",
  MULTIPLE_DOCS: "it holds several documents, and must be one",
  TAB_AS_INDENT: "it is not YAML: a tab is used to indent",
  BAD_INDENT: "it is not YAML: the indentation is wrong, or a bracket is not closed",
  BLOCK_AS_IMPLICIT_KEY: "it is not YAML: the indentation is wrong",
  MISSING_CHAR: "it is not YAML: a quote, a bracket or a comma is missing",
};

function yamlFault(document: Document.Parsed, text: string): string {
  const { code, pos, linePos } = document.errors[0]!;
  let line = linePos?.[0].line;
  // The fault is where it begins, not where the file ends without its end.
  if (code === "MISSING_CHAR") {
    loadYaml().visit(document, {
      Scalar(_, { type, range }) {
        const isOpen = type === "QUOTE_SINGLE" || type === "QUOTE_DOUBLE";
        if (isOpen && range && range[0] < pos[0] && range[1] >= pos[0]) line = lineAt(text, range[0]);
      },
    });
  }
  // What is indented too far is told of the value before it.
  if (code === "BLOCK_AS_IMPLICIT_KEY") line = document.errors[1]?.linePos?.[1]?.line ?? line;
  return `${YAML_FAULTS[code] ?? "it is not YAML"}${line === undefined ? "" : `, at line ${line}`}`;
}

function lineAt(text: string, at: number): number {
  return text.slice(0, at).split("\n").length;
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
