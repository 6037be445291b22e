/** The definitions of Google's services: the module is what the script makes of the package that ships them. */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { dirForTest } from "../support/sluice-process.ts";

const SCRIPT = fileURLToPath(new URL("../../scripts/proto-module.mjs", import.meta.url));
const MODULE = fileURLToPath(new URL("../../packages/server/src/doors/grpc/generated-definitions.ts", import.meta.url));

/** The script's complaint; empty when the module is up to date. */
const check = (module: string): string =>
  spawnSync(process.execPath, [SCRIPT, "--check", module], { encoding: "utf8" }).stderr;

it("the module of definitions is up to date, and reported as stale after a change", () => {
  expect(check(MODULE)).toBe("");
  const changed = join(dirForTest(), "changed.ts");
  writeFileSync(changed, readFileSync(MODULE, "utf8").replace("orderingKey", "otherKey"));
  expect(check(changed)).toContain("stale");
});
