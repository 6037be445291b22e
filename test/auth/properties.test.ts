import fc from "fast-check";
import { expect, it } from "vitest";
import { coversPattern, matchesFilter, parseFilter } from "../../packages/server/src/core/topic.ts";
import { matchesGlob, parseGlob } from "../../packages/server/src/wakes/glob.ts";
import { ADDRESS_WORDS } from "../support/routes.ts";
import { AuthApp } from "./app.ts";
import { SESSION_ID } from "./matrix.ts";

const OPEN = /^\/(|health|ready|openapi\.json|v1\/([\w-]{1,128}\/)?stream\/__ds\/jwks\.json)$/;
const WORDS = ["p", "q", "open", "default", "s", SESSION_ID, ...ADDRESS_WORDS];
const ODD = [
  "",
  ".",
  "..",
  "%2e%2e",
  "%2F",
  "%5F%5Fds",
  "__ds%2F",
  "health",
  "metrics",
  "session:x",
  "$x",
  "#",
  "+",
  "a%00",
];
const METHODS = ["GET", "HEAD", "PUT", "POST", "DELETE"];

it("no spelling of an address is answered without a token, except by open routes", async () => {
  const app = new AuthApp();
  const start = fc.constantFrom(
    "/",
    "/v1/",
    "/v1/stream/",
    "/v1/p/",
    "/v1/p/stream/",
    "/v1/p/stream/__ds/subscriptions/",
  );
  const words = fc.array(fc.constantFrom(...WORDS, ...WORDS, ...ODD), { minLength: 1, maxLength: 6 });
  const path = fc.tuple(start, words).map(([before, rest]) => before + rest.join("/"));
  let answered = 0;
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...METHODS), path, async (method, target) => {
      const { status } = await app.call(method, target, { body: {} });
      if (status === 401) answered++;
      if (status < 400) expect(target).toMatch(OPEN);
    }),
    { numRuns: 3_000 },
  );
  // Enough of the generated addresses named a route.
  expect(answered).toBeGreaterThan(50);
  expect(app.reports).toEqual([]);
});

const level = fc.constantFrom("a", "b", "", "+", "#", "*");
const levels = (wild: readonly string[]) =>
  fc.array(fc.oneof(fc.constantFrom(...wild), fc.constantFrom("a", "b", "")), { minLength: 1, maxLength: 4 });

it("a filter that covers a pattern matches every path that the pattern matches", () => {
  let covered = 0;
  fc.assert(
    fc.property(
      levels(["+", "#"]),
      levels(["*", "**"]),
      fc.array(level, { minLength: 1, maxLength: 6 }),
      (filterLevels, globLevels, pathLevels) => {
        const filter = parseFilter(filterLevels.join("/"));
        const glob = parseGlob(globLevels.join("/"));
        const path = pathLevels.join("/");
        fc.pre(filter !== undefined && glob !== undefined);
        if (!coversPattern(filter!, glob!.levels) || !matchesGlob(glob!, path)) return;
        covered++;
        expect(matchesFilter(filter!, path), `${filterLevels.join("/")} ${glob!.text} ${path}`).toBe(true);
      },
    ),
    { numRuns: 20_000 },
  );
  expect(covered).toBeGreaterThan(100);
});
