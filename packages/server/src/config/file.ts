/**
 * Reads a configuration file, YAML or JSON, into keys and values. load.ts calls it.
 *
 * Invariants: a fault names the file, the line and the column, and quotes nothing of the file. Size and depth are bounded before
 * anything recurses into the content.
 */
import { readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import type { Document, LineCounter } from "yaml";
import { allKeys, type Entry, entryOfKey, isGroup, nearest } from "./catalog.ts";
import { ConfigError, type Source, unknown } from "./problem.ts";

export interface Given {
  readonly entry: Entry;
  readonly source: Source;
  readonly value: unknown;
}

type Yaml = typeof import("yaml");

/** Loaded only if there is a file, because loading takes a tenth of the time that a command needs to start. */
const loadYaml = (): Yaml => createRequire(import.meta.url)("yaml");

const MAX_FILE_BYTES = 1024 * 1024;
/** Far deeper than any setting. YAML's reader recurses, so a file of a hundred thousand brackets would end the process. */
const MAX_DEPTH = 50;

/** Throws a ConfigError for a file that cannot be read at all; problems inside go into `problems`. */
export function readConfigFile(path: string, problems: string[]): Given[] {
  const given: Given[] = [];
  const content = parseConfig(path, read(path));
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

/**
 * JSON is read as the YAML that it is, so both have one reader. A fault is reported by kind, line and column, never by
 * its text, because that may quote a secret.
 */
export function parseConfig(path: string, text: string): unknown {
  const yaml = loadYaml();
  const { LineCounter, parseDocument, visit } = yaml;
  const lines = new LineCounter();
  const refuse = ({ why, at }: Fault): never => {
    const { line, col } = lines.linePos(at);
    throw new ConfigError([`the file ${path} cannot be used: ${why}, at line ${line}, column ${col}`]);
  };
  const tooDeep = depthFault(text, yaml, lines);
  if (tooDeep !== undefined) refuse(tooDeep);
  const document = parseDocument(text, { uniqueKeys: true });
  const fault = yamlFault(document, visit) ?? (path.endsWith(".json") ? jsonFault(document, visit) : undefined);
  if (fault !== undefined) refuse(fault);
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch {
    throw new ConfigError([`the file ${path} cannot be used: an alias (*name) stands for nothing, or for too much`]);
  }
}

interface Fault {
  readonly why: string;
  /** The offset of a character. */
  readonly at: number;
}

/** Reads the text token by token, without recursion, and notes its lines on the way. */
function depthFault(text: string, { Lexer, Parser }: Yaml, lines: LineCounter): Fault | undefined {
  lines.addNewLine(0);
  const parser = new Parser(lines.addNewLine);
  for (const lexeme of new Lexer().lex(text)) {
    for (const _token of parser.next(lexeme));
    if (parser.stack.length > MAX_DEPTH) {
      return { why: `it is nested more than ${MAX_DEPTH} levels deep`, at: parser.offset };
    }
  }
  return undefined;
}

const YAML_FAULTS: Readonly<Record<string, string>> = {
  DUPLICATE_KEY: "a key is given twice",
  MULTIPLE_DOCS: "it holds several documents, and must be one",
  TAB_AS_INDENT: "a tab is used to indent",
  BAD_INDENT: "the indentation is wrong, or a bracket is not closed",
  BLOCK_AS_IMPLICIT_KEY: "the indentation is wrong",
  BLOCK_IN_FLOW: "a quote, a bracket or a comma is missing",
  MULTILINE_IMPLICIT_KEY: "a quote, a bracket or a comma is missing",
  MISSING_CHAR: "a quote, a bracket, a colon or a comma is missing",
  BAD_SCALAR_START: "a text that starts like this must be in quotes",
  BAD_DQ_ESCAPE: "an escape (\\) in a text is wrong",
};

function yamlFault(document: Document.Parsed, visit: Yaml["visit"]): Fault | undefined {
  const [first, second] = document.errors;
  if (first === undefined) return undefined;
  const { code, pos } = first;
  let at = pos[0];
  // An open quote is found at the end of the file; the fault is where the quote begins.
  if (code === "MISSING_CHAR") {
    visit(document, {
      Scalar(_, { type, range }) {
        const isQuoted = type === "QUOTE_SINGLE" || type === "QUOTE_DOUBLE";
        if (isQuoted && range && range[0] < pos[0] && range[1] >= pos[0]) at = range[0];
      },
    });
  }
  // For a line that is indented too far, the first fault is at the value before it, and the second one reaches up to
  // it.
  if (code === "BLOCK_AS_IMPLICIT_KEY") at = second?.pos[1] ?? at;
  return { why: YAML_FAULTS[code] ?? "something stands where it cannot", at };
}

const JSON_LITERAL = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/;

/**
 * Finds a text without double quotes. YAML allows it, but in JSON it is a typing error: a lost comma joins two values
 * into one.
 */
function jsonFault(document: Document.Parsed, visit: Yaml["visit"]): Fault | undefined {
  let fault: Fault | undefined;
  visit(document, {
    Scalar(_, { type, source, range }) {
      if (type === "QUOTE_DOUBLE" || !range || JSON_LITERAL.test(source ?? "")) return undefined;
      fault = { why: "a text is not in double quotes, or a value or a comma is missing", at: range[0] };
      return visit.BREAK;
    },
  });
  return fault;
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
