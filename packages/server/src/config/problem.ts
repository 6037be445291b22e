/**
 * The problems of a configuration, one line each: the key, its source, its value, and what is allowed. Called by
 * load.ts and file.ts; the command line prints them.
 *
 * Invariants: no line contains a secret, not even under a misspelled name.
 */
import type { Entry } from "./catalog.ts";

/** The source of a value, in the words in which an operator would search for it. */
export interface Source {
  readonly kind: "flag" | "environment" | "file" | "options";
  /** `--port`, `SLUICE_PORT`, or the path of the file. */
  readonly name: string;
}

/** Errors of the operator: the server does not start, and the command ends with exit code 2. */
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

/** A misspelled secret is still a secret, so the value of an unknown name is shown only if it cannot be one. */
function mayBeShown(key: string, value: unknown): boolean {
  if (/secr|pass|tok|key|jwk|pw|cred|redis/i.test(key)) return false;
  return typeof value === "boolean" || /^-?\d{1,15}$/.test(String(value));
}

const MAX_SHOWN_CHARS = 200;

/** A value as the operator may see it. */
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

/** An unescaped comma can cut an address in the middle of a password, so a partial address is hidden. */
function withoutPassword(address: string): string {
  const shown = address.replace(/^([^/]*\/\/)?.*@/, "$1(hidden)@");
  return shown === address && /\/\/[^/]*:(?!\d+(\/|$))/.test(address) ? "(hidden)" : shown;
}
