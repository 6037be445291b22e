/**
 * The routes of a server by name, as its features describe them. Tests compare their own lists with it.
 *
 * Invariants: it builds the real app, so that no route is listed twice.
 */
import { buildApp } from "../../packages/server/src/compose.ts";
import type { Route } from "../../packages/server/src/core/route.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import { withDefaults } from "../../packages/server/src/server-options.ts";
import { manualWorld } from "./world.ts";

const world = manualWorld(1);
const { features } = buildApp(withDefaults(), world, openMemory({ world }));

export const ROUTES: ReadonlyMap<string, Route> = new Map(
  features.flatMap(({ routes }) => routes.map((route) => [route.name, route] as const)),
);

/** The literal levels of all addresses. */
export const ADDRESS_WORDS: readonly string[] = [
  ...new Set([...ROUTES.values()].flatMap(({ address }) => address.split("/").filter((part) => /^[^{]/.test(part)))),
];
