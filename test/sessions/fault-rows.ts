/** What the rows that need faults have in common: a stream with followers, and that in the end nothing is forgotten and nothing twice. */
import { expect } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type FanoutHeaders, inline } from "./api.ts";
import type { On } from "./faulty-process.ts";
import { subscribers } from "./stage.ts";

const PATIENCE_MS = 20_000;
const AT_ONCE = 50;

/** A stream with its followers. */
export interface Followed {
  readonly stream: string;
  readonly sessions: readonly string[];
}

export async function followed({ api }: On, stream: string, count: number): Promise<Followed> {
  await api.create(stream);
  return { stream, sessions: await subscribers(api, stream, count) };
}

/** Publishes, and is not answered for now. */
export function hanging({ api }: On, stream: string, body: string): Promise<FanoutHeaders | undefined> {
  return api.published(stream, body).catch(() => undefined);
}

export const deferred = (count: number, mode: string): FanoutHeaders => ({ count, successes: 0, failures: 0, mode });

/** Every one of them has exactly these, at last. */
export async function have({ api }: On, sessions: readonly string[], messages: unknown): Promise<void> {
  for (let i = 0; i < sessions.length; i += AT_ONCE) {
    const check = (session: string) =>
      eventually(async () => expect(await api.messages(session)).toEqual(messages), PATIENCE_MS);
    await Promise.all(sessions.slice(i, i + AT_ONCE).map(check));
  }
}

export async function logOf({ api }: On, stream: string): Promise<unknown[]> {
  const { body } = await api.call("GET", `/stream/${stream}?offset=-1`);
  return body;
}

/**
 * What was owed has come, nothing twice and in the order of the source, which holds `published`; and the next publish goes to
 * everybody at once.
 */
export async function caughtUp(on: On, { stream, sessions }: Followed, published: unknown[]): Promise<void> {
  expect(await logOf(on, stream)).toEqual(published);
  await have(on, sessions, published);
  await flows(on, { stream, sessions });
}

/** A publish reaches everybody, and everybody has the whole log. */
export async function flows(on: On, { stream, sessions }: Followed): Promise<void> {
  // Whoever lagged has its copies a moment before the registry knows of that.
  const all = inline(sessions.length);
  await eventually(async () => expect(await on.api.published(stream, `"on"`)).toEqual(all), PATIENCE_MS);
  await have(on, sessions, await logOf(on, stream));
}
