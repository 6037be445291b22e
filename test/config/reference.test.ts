import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { allEntries } from "../../packages/server/src/config/catalog.ts";
import { referenceText } from "../../packages/server/src/config/reference.ts";
import { HEADINGS } from "../../packages/server/src/config/schema.ts";
import { DEFAULTS } from "../../packages/server/src/server-options.ts";
import { sluice } from "../support/sluice-process.ts";

const written = readFileSync(new URL("../../docs/configuration.md", import.meta.url), "utf8");

/** The dotted keys of an object, down to its leaves. */
function keysOf(value: object, prefix = ""): string[] {
  return Object.entries(value).flatMap(([name, inner]) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner) && name !== "projects"
      ? keysOf(inner, `${prefix}${name}.`)
      : [prefix + name],
  );
}

/** The log's limits are joined with its settings, because only the log reads both. */
const isLogLimit = (key: string) => key.startsWith("log.") && !["log.level", "log.requests"].includes(key);

describe("docs/configuration.md", () => {
  it("equals the output of `sluice config docs`; run it again after a change", () => {
    expect(written).toBe(referenceText());
  });

  it("names every key of the settings, with its variable, default, allowed form and meaning", () => {
    const others = ["report", "authorize", "projects"];
    const isPublic = (key: string) => !others.includes(key) && !key.startsWith("internal.");
    const keys = keysOf(DEFAULTS).filter((key) => isPublic(key) && !isLogLimit(key));
    expect(keys.length).toBeGreaterThan(50);
    for (const key of keys) expect(written).toContain(`**\`${key}\`**`);
    for (const { key, env, flag, form, meaning } of allEntries()) {
      const at = written.indexOf(`**\`${key}\`**`);
      expect(at, key).toBeGreaterThan(0);
      const paragraph = written.slice(at, written.indexOf("\n\n", at));
      for (const part of [`\`${env}\``, form, meaning, "Default ", ...(flag === undefined ? [] : [flag])]) {
        expect(paragraph).toContain(part);
      }
    }
  });

  it("has a section for every group", () => {
    const groups = new Set(allEntries().map(({ key }) => (key.includes(".") ? key.split(".")[0]! : "")));
    expect([...groups].sort()).toEqual(Object.keys(HEADINGS).sort());
  });
});

describe("names", () => {
  it("of keys, variables and flags are unique", () => {
    for (const name of ["key", "env"] as const) {
      const names = allEntries().map((entry) => entry[name]);
      expect(new Set(names).size).toBe(names.length);
    }
  });

  it("of numbers end with their unit, unless they count things", () => {
    for (const { key, form } of allEntries()) {
      if (form.includes("milliseconds")) expect(key).toMatch(/Ms$/);
      if (form.includes("of seconds")) expect(key).toMatch(/Seconds$/);
      if (form.includes("of bytes")) expect(key).toMatch(/Bytes$/);
    }
  });

  it("of the flags match the contract", async () => {
    const { stdout } = await sluice(["serve", "--help"]);
    const flags =
      "host port data memory redis redis-wait-replicas grpc-port no-auth config log-level drain-ms long-poll-ms session-ttl-seconds";
    for (const flag of flags.split(" ")) expect(stdout).toMatch(new RegExp(`^ +--${flag}\\b`, "m"));
  });
});
