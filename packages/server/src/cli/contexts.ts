/**
 * Contexts: named servers with their project and token, in one file of the user. The `context` commands change it;
 * commands that talk to a server take from it what their flags leave open.
 *
 * Invariants: only its owner can read the file, because it may contain tokens.
 */
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { usage } from "./exit.ts";

export interface Context {
  readonly url: string;
  readonly project?: string | undefined;
  readonly token?: string | undefined;
}

export interface Contexts {
  readonly current?: string | undefined;
  readonly contexts: Readonly<Record<string, Context>>;
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;

export function contextsPath(): string {
  const { XDG_CONFIG_HOME } = process.env;
  const base = XDG_CONFIG_HOME === undefined || XDG_CONFIG_HOME === "" ? join(homedir(), ".config") : XDG_CONFIG_HOME;
  return join(base, "sluice", "contexts.json");
}

export function checkContextName(name: string): void {
  if (!NAME.test(name)) throw usage(`a context is named by letters, digits, _, . and -, not ${JSON.stringify(name)}`);
}

export function readContexts(): Contexts {
  const path = contextsPath();
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code === "ENOENT") return { contexts: {} };
    throw usage(`the contexts in ${path} cannot be read: ${(fault as Error).message}`);
  }
  try {
    const value = JSON.parse(text) as Contexts;
    const isWhole = Object.values(value.contexts).every((context) => typeof context.url === "string");
    if (isWhole) return value;
  } catch {
    // Reported below.
  }
  throw usage(`the file of contexts ${path} is damaged; repair or remove it`);
}

/** Replaces the file atomically: a crash leaves the old one. */
export function writeContexts(contexts: Contexts): void {
  const path = contextsPath();
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const temporary = `${path}.${process.pid}.tmp`;
  writeFileSync(temporary, `${JSON.stringify(contexts, undefined, 2)}\n`, { mode: 0o600 });
  // A temporary file left by a crash would keep its mode.
  chmodSync(temporary, 0o600);
  renameSync(temporary, path);
}

/** A URL that was edited into the file by hand may contain a password. */
export function shownUrl(url: string): string {
  return url.replace(/\/\/.*@/, "//(hidden)@");
}

export function findContext({ contexts }: Contexts, name: string): Context {
  const context = Object.hasOwn(contexts, name) ? contexts[name] : undefined;
  if (context !== undefined) return context;
  const names = Object.keys(contexts);
  const hint =
    names.length === 0 ? "there are none yet; see `sluice context add --help`" : `there are ${names.join(", ")}`;
  throw usage(`there is no context ${name}; ${hint}`);
}
