/**
 * The function library that runs inside Redis, assembled from lua/*.lua; each of those files lists its keys, arguments and
 * results. `node scripts/lua-module.mjs` makes them a module; `calls.ts` loads the library into a master that lacks it.
 *
 * Invariants: no rule of the product is in it. Its name is a hash of its text, so nodes of two versions, or with other settings,
 * use their own libraries side by side.
 */
import { createHash } from "node:crypto";
import { NODE_ALIVE_MS } from "../contract.ts";
import { LUA } from "./generated-lua.ts";
import type { RedisLimits } from "./options.ts";

/** Files that define what the other files use; they come first, in this order. */
const SHARED = ["shared", "plan"] as const;
type SharedName = (typeof SHARED)[number];

/** One function per file, with the file's name. `free` is a second name of `commit`. */
export type FunctionName = Exclude<keyof typeof LUA, SharedName> | "free";

export interface Library {
  readonly source: string;
  /** The names by which the functions are called. */
  readonly functions: Readonly<Record<FunctionName, string>>;
}

type Constants = Pick<RedisLimits, "tombstoneSeconds" | "writerSeconds" | "turnLosses" | "turnMs">;

export function libraryOf({ tombstoneSeconds, writerSeconds, turnLosses, turnMs }: Constants): Library {
  const constants = `local TOMBSTONE_SECONDS = ${tombstoneSeconds}
local WRITER_SECONDS = ${writerSeconds}
local PATIENCE = ${turnLosses}
local TURN_US = ${turnMs * 1_000}
local ALIVE_MS = ${NODE_ALIVE_MS}
`;
  const names = (Object.keys(LUA) as (keyof typeof LUA)[]).filter(isFunction);
  const body = constants + [...SHARED, ...names].map((name) => LUA[name]).join("\n");
  const library = `sluice_${createHash("sha256").update(body).digest("hex").slice(0, 12)}`;
  const functions = Object.fromEntries([...names, "free"].map((name) => [name, `${library}_${name}`]));
  return {
    source: `#!lua name=${library}\nlocal LIBRARY = "${library}"\n${body}`,
    functions: functions as Library["functions"],
  };
}

function isFunction(name: keyof typeof LUA): name is Exclude<keyof typeof LUA, SharedName> {
  return !SHARED.includes(name as SharedName);
}
