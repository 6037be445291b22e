/**
 * The names of projects, for every door and for the configuration.
 *
 * Invariants: a word that names a route is never a project name, so `/v1/stream/a` can mean the project `default`.
 */
import { Refusal } from "./refusal.ts";

export const DEFAULT_PROJECT = "default";

const PROJECT = /^[a-zA-Z0-9_-]{1,128}$/;

/** Reserved in the API, because later features take their route names from here. */
export const ROUTE_WORDS: ReadonlySet<string> = new Set(
  (
    "stream streams subscribe unsubscribe publish session sessions subscriptions live heartbeat session-offsets presence " +
    "consume groups pull topics channels admin"
  ).split(" "),
);

/** `__proto__` is excluded, because objects do not hold it like any other name. */
export function isProjectName(name: string): boolean {
  return PROJECT.test(name) && !ROUTE_WORDS.has(name) && name !== "__proto__";
}

/** Throws a Refusal unless an address may name this project. */
export function checkProject(name: string): void {
  if (!PROJECT.test(name))
    throw new Refusal("bad-project", "a project name must have 1 to 128 letters, digits, _ and -");
}
