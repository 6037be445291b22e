/**
 * A log line for people at a terminal: time, level, message, then the fields. The log uses it when standard error is a
 * terminal; every other outlet gets JSON.
 *
 * Invariants: a control character of a value never reaches the terminal. A line shows every field that its JSON form has.
 */
import type { LogLevel, RequestLine } from "./log.ts";

const COLORS: Readonly<Record<LogLevel, number>> = {
  trace: 2,
  debug: 2,
  info: 36,
  warn: 33,
  error: 31,
  fatal: 31,
  silent: 2,
};
const DIM = 2;

export type LineText = (level: LogLevel, time: number, fields: object, message: string) => string;

export function prettyLines(hasColors: boolean): LineText {
  const paint = (code: number, text: string) => (hasColors ? `\x1b[${code}m${text}\x1b[0m` : text);
  return (level, time, fields, message) => {
    const isRequest = message === "request" && "route" in fields;
    const said = isRequest ? requestText(fields as RequestLine) : message;
    const { stack, rest } = isRequest ? NOTHING : fieldsOf(fields);
    const start = `${paint(DIM, clockText(time))} ${paint(COLORS[level], level.padEnd(5))} ${said}`;
    return `${start}${rest === "" ? "" : paint(DIM, rest)}${stack}\n`;
  };
}

const NOTHING = { stack: "", rest: "" };

/** The time of day, as the operator's clock shows it. */
function clockText(time: number): string {
  const at = new Date(time);
  const two = (value: number) => String(value).padStart(2, "0");
  const ms = String(at.getMilliseconds()).padStart(3, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${ms}`;
}

function requestText({ id, method, route, project, status, ms, end }: RequestLine): string {
  const more = [project === undefined ? "" : ` project=${project}`, end === undefined ? "" : ` end=${end}`];
  return `${status} ${method} ${route} ${ms} ms${more.join("")} id=${id}`;
}

/** The fields as `name=value`. The stack of a fault follows on lines of its own. */
function fieldsOf(fields: object): { readonly stack: string; readonly rest: string } {
  let rest = "";
  let stack = "";
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    if (name === "err") stack = faultText(value as Fault, "  ");
    else rest += ` ${name}=${typeof value === "string" && /^\S+$/.test(value) ? harmless(value) : json(value)}`;
  }
  return { stack, rest };
}

interface Fault {
  readonly type: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly cause?: Fault;
}

function faultText({ type, message, code, stack, cause }: Fault, indent: string): string {
  const said = stack ?? `${type}: ${message}`;
  const lines = `${said}${code === undefined ? "" : ` (${code})`}`
    .split("\n")
    .map((line) => `\n${indent}${harmless(line)}`);
  return lines.join("") + (cause === undefined ? "" : `\n${indent}caused by${faultText(cause, `${indent}  `)}`);
}

function json(value: unknown): string {
  return harmless(JSON.stringify(value) ?? String(value));
}

function harmless(text: string): string {
  return text.replace(/\p{Cc}/gu, "\ufffd");
}
