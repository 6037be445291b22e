/** The functions of Redis: the module matches their files, and each file documents how its function is called. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";

const SCRIPT = fileURLToPath(new URL("../../scripts/lua-module.mjs", import.meta.url));
const REDIS = fileURLToPath(new URL("../../packages/server/src/engine/redis", import.meta.url));
const LUA = join(REDIS, "lua");

/** The script's complaint about a folder; empty when the module is up to date. */
function check(folder: string): string {
  return spawnSync(process.execPath, [SCRIPT, "--check", folder], { encoding: "utf8" }).stderr;
}

describe("the module of the functions of Redis", () => {
  it("matches the Lua files", () => {
    expect(check(REDIS)).toBe("");
  });

  it("is reported as stale when a file was changed, added or removed", () => {
    const dir = mkdtempSync(join(tmpdir(), "sluice-lua-"));
    onTestFinished(() => rmSync(dir, { recursive: true }));
    const changes: readonly ((folder: string) => void)[] = [
      (folder) => writeFileSync(join(folder, "lua", "hit.lua"), "-- changed\n"),
      (folder) => writeFileSync(join(folder, "lua", "added.lua"), "-- added\n"),
      (folder) => rmSync(join(folder, "lua", "hit.lua")),
    ];
    for (const [i, change] of changes.entries()) {
      const folder = join(dir, String(i));
      cpSync(LUA, join(folder, "lua"), { recursive: true });
      cpSync(join(REDIS, "generated-lua.ts"), join(folder, "generated-lua.ts"));
      change(folder);
      expect(check(folder)).toContain("stale");
    }
  });
});

describe("a Lua file", () => {
  const files = readdirSync(LUA).map((name) => [name, readFileSync(join(LUA, name), "utf8")] as const);

  it.each(files)(
    "%s opens with its purpose, and lists the keys and results of each function it registers",
    (_, text) => {
      const header = /^(--.*\n)+/.exec(text)?.[0] ?? "";
      expect(header).not.toBe("");
      if (!/^register\(/m.test(text)) expect(header).toContain("Registers nothing");
      else for (const part of ["-- KEYS ", "-- Gives "]) expect(header).toContain(part);
      // A function that takes only keys documents KEYS alone.
      if (/local function \w+\(KEYS, A\)/.test(text)) expect(header).toContain("-- ARGV ");
    },
  );
});
