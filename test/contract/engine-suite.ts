/**
 * The contract suite: every sentence of the engine contract as a behaviour, run on every engine. An engine's own test file
 * calls `describeEngine` with a way to open it; each behaviour opens an engine of its own and closes it again.
 */
import { describe, it } from "vitest";
import { commits } from "./suite/commits.ts";
import { directories } from "./suite/directories.ts";
import { type Behaviour, Fixture, type OpenEngine } from "./suite/fixture.ts";
import { hints } from "./suite/hints.ts";
import { logs } from "./suite/logs.ts";
import { nodes } from "./suite/nodes.ts";
import { ownedEntities } from "./suite/owned-entities.ts";
import { owners } from "./suite/owners.ts";
import { reads } from "./suite/reads.ts";
import { rows } from "./suite/rows.ts";

export type { OpenEngine, OpenedEngine } from "./suite/fixture.ts";

/** `isRemote`: engines of which several may be open at once, and whose time passes by waiting, run their behaviours side by side. */
export function describeEngine(name: string, open: OpenEngine, { isRemote = false } = {}): void {
  const behaviour: Behaviour = (title, body) =>
    (isRemote ? it.concurrent : it)(title, async () => {
      const opened = await open();
      try {
        await body(new Fixture(opened));
      } finally {
        await opened.close();
      }
    });

  describe(name, () => {
    describe("a commit", () => commits(behaviour));
    describe("a log", () => logs(behaviour));
    describe("reading a log", () => reads(behaviour));
    describe("rows", () => rows(behaviour));
    describe("the directory", () => directories(behaviour));
    describe("watchers and reminders", () => hints(behaviour));
    describe("ownership and limits", () => owners(behaviour));
    describe("an owned entity", () => ownedEntities(behaviour));
    describe("nodes", () => nodes(behaviour));
  });
}
