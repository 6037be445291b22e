/**
 * The contract suite: every sentence of the engine contract as a behavior, run on every engine. An engine's own test file calls
 * `describeEngine` with a function that opens it; each behavior opens an engine of its own and closes it.
 */
import { describe, it } from "vitest";
import { commits } from "./suite/commits.ts";
import { directories } from "./suite/directories.ts";
import { type Behavior, Fixture, type OpenEngine } from "./suite/fixture.ts";
import { hints } from "./suite/hints.ts";
import { logs } from "./suite/logs.ts";
import { nodes } from "./suite/nodes.ts";
import { ownedEntities } from "./suite/owned-entities.ts";
import { owners } from "./suite/owners.ts";
import { reads } from "./suite/reads.ts";
import { rows } from "./suite/rows.ts";

export type { OpenEngine, OpenedEngine } from "./suite/fixture.ts";

/**
 * `isRemote`: the behaviors run concurrently, because several such engines may be open at once and their time passes by waiting.
 */
export function describeEngine(name: string, open: OpenEngine, { isRemote = false } = {}): void {
  const behavior: Behavior = (title, body) =>
    (isRemote ? it.concurrent : it)(title, async () => {
      const opened = await open();
      try {
        await body(new Fixture(opened));
      } finally {
        await opened.close();
      }
    });

  describe(name, () => {
    describe("a commit", () => commits(behavior));
    describe("a log", () => logs(behavior));
    describe("reading a log", () => reads(behavior));
    describe("rows", () => rows(behavior));
    describe("the directory", () => directories(behavior));
    describe("watchers and reminders", () => hints(behavior));
    describe("ownership and limits", () => owners(behavior));
    describe("an owned entity", () => ownedEntities(behavior));
    describe("nodes", () => nodes(behavior));
  });
}
