/**
 * What is wrong with a configuration, in one line each: which key, where it came from, what it is, what it may be.
 *
 * What must stay true: a secret is never part of a line, not even one under a misspelt name.
 */
import type { Entry } from "./catalogue.ts";

/** Where a value came from, as a reader would look for it. */
export interface Source {
  readonly kind: "flag" | "environment" | "file" | "options";
  /** `--port`, `SLUICE_PORT`, or the path of the file. */
  readonly name: string;
}

/** Faults of the operator's making: the server does not start, and the command ends with 2. */
export class ConfigError extends Error {
  constructor(readonly problems: readonly string[]) {
    super(problems.join("\n"));
    this.name = "ConfigError";
  }
}

export function sourceText({ kind, name }: Source): string {
  switch (kind) {
    case "flag":
      return `the flag ${name}`;
    case "environment":
      return `the variable ${name}`;
    case "file":
      return `the file ${name}`;
    case "options":
      return "the options";
  }
}

export function malformed(entry: Entry, source: Source, value: unknown): string {
  return `${entry.key} (from ${sourceText(source)}) is ${shownValue(entry, value)}; it must be ${entry.form}`;
}

export function unknown(key: string, source: Source, value: unknown, meant: string | undefined): string {
  const shown = mayBeShown(key, value) ? `, which is ${JSON.stringify(value)},` : "";
  const hint = meant === undefined ? "see `sluice config docs` for all that are" : `did you mean ${meant}?`;
  return `${key} (from ${sourceText(source)})${shown} is not a setting; ${hint}`;
}

/** A misspelt secret is a secret still; what is shown of an unknown name cannot be one. */
function mayBeShown(key: string, value: unknown): boolean {
  if (/secr|pass|tok|key|jwk|pw|cred|redis/i.test(key)) return false;
  return typeof value === "boolean" || /^-?\d{1,15}$/.test(String(value));
}

const MAX_SHOWN_CHARS = 200;

/** A value as people may see it. */
export function shownValue({ secrecy }: Pick<Entry, "secrecy">, value: unknown): string {
  if (value === undefined) return "not set";
  if (secrecy === "hidden") return "(hidden)";
  if (secrecy === "address") return shown(withoutPasswords(value));
  return shown(value);
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length <= MAX_SHOWN_CHARS ? text : `${text.slice(0, MAX_SHOWN_CHARS)}… (${text.length} characters)`;
}

function withoutPasswords(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutPasswords);
  if (typeof value === "string") return withoutPassword(value);
  if (typeof value === "object" && value !== null && "keys" in value && Array.isArray(value.keys)) {
    return `(a set of ${value.keys.length} keys)`;
  }
  return "(hidden)";
}

/** Half an address may end in the middle of a password, because somebody forgot to escape a comma. */
function withoutPassword(address: string): string {
  const shown = address.replace(/^([^/]*\/\/)?.*@/, "$1(hidden)@");
  return shown === address && /\/\/[^/]*:(?!\d+(\/|$))/.test(address) ? "(hidden)" : shown;
}
