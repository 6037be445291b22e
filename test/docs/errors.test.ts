import { readFileSync } from "node:fs";
import { errors } from "@sluice/protocol";
import { expect, test } from "vitest";
import { textOf } from "./blocks.ts";

/** The rows of the tables of errors.md: the code, and the columns after it. */
const rows = [...textOf("docs/errors.md").matchAll(/^\| `([a-z0-9-]+)` \| (.+) \|$/gm)].map(
  ([, code, rest]) => [code!, ...rest!.split(" | ")] as const,
);
const ofServer = rows.filter(([, status]) => /^\d+$/.test(status!));
const ofClient = rows.filter(([, status]) => !/^\d+$/.test(status!));

test("errors.md has every code of the server with its status, and no other", () => {
  const known = Object.entries(errors).map(([code, { status, retryable, title }]) => [
    code,
    String(status),
    retryable ? "yes" : "no",
    title,
  ]);
  expect(ofServer.map((row) => row.slice(0, 4)).sort()).toEqual(known.sort());
});

test("errors.md has every code that the client itself gives, and no other", () => {
  const source = readFileSync(new URL("../../packages/client/src/error.ts", import.meta.url), "utf8");
  const union = /export type ClientErrorCode =([\s\S]*?);/.exec(source)![1]!;
  const known = [...union.matchAll(/\| "([a-z-]+)"/g)].map(([, code]) => code!);
  expect(known.length).toBeGreaterThan(5);
  expect(ofClient.map(([code]) => code).sort()).toEqual(known.sort());
});
