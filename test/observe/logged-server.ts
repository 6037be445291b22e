/**
 * A server whose log lines a test can read, through a logger of its own, as an embedding program may bring. The tests of
 * this folder use it.
 *
 * Invariants: every line goes through JSON, as it would be written.
 */
import type { LogOptions, ServerOptions } from "@sluice/server";
import { type Fixture, serverForTest } from "../e2e/server.ts";

export interface Line {
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

export interface Logged extends Fixture {
  readonly lines: Line[];
  /** The lines of requests. */
  requests(): Line[];
}

export function collectingLogger(): { readonly lines: Line[]; readonly log: LogOptions } {
  const lines: Line[] = [];
  const at = (level: string) => (fields: object, msg: string) => {
    // Through JSON, as it would be written.
    lines.push(JSON.parse(JSON.stringify({ level, ...fields, msg })) as Line);
  };
  return { lines, log: { logger: { info: at("info"), warn: at("warn"), error: at("error") } } };
}

export async function loggedServer(options: ServerOptions = {}): Promise<Logged> {
  const { lines, log } = collectingLogger();
  const fixture = await serverForTest("memory", { log, ...options });
  return Object.assign(fixture, { lines, requests: () => lines.filter(({ msg }) => msg === "request") });
}
