/**
 * Every block of README.md and docs/ does what a reader expects when it is pasted, in the order of its page, against one server
 * per page: shell commands succeed, configuration is accepted, TypeScript compiles and runs, JSON is JSON.
 */
import { join } from "node:path";
import { createServer } from "@sluice/server";
import { afterAll, expect, test } from "vitest";
import { temporaryDir } from "../support/disk.ts";
import { blocksOf, pages, place } from "./blocks.ts";
import { typeErrors, writePrograms } from "./programs.ts";
import { promises } from "./promises.ts";
import { openRelay } from "./relay.ts";
import { seen } from "./stage.ts";
import { Walk } from "./walk.ts";

const blocks = new Map(pages.map((page) => [page, blocksOf(page)]));
const folder = temporaryDir();
const programs = writePrograms(join(folder.dir, "programs"), blocks);
const relay = await openRelay();
afterAll(() => {
  folder.remove();
  relay.close();
});

/** Languages of blocks that no test can run, and what would be needed. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  nginx: "needs nginx",
  caddy: "needs Caddy",
  dockerfile: "needs Docker",
  ini: "needs systemd",
};
const LANGUAGES = ["sh", "ts", "js", "tsx", "yaml", "json", "console", "text", "", ...Object.keys(ELSEWHERE)];

test("every block has a language, and those that do not run are few and say why", () => {
  const all = [...blocks.values()].flat();
  expect(all.filter(({ language }) => !LANGUAGES.includes(language)).map(place)).toEqual([]);
  // A block without a language is a picture, or an output; commands must not hide in one.
  const hidden = all.filter(
    ({ language, text }) => ["", "text"].includes(language) && /^(npx |npm |sluice |curl )/m.test(text),
  );
  expect(hidden.map(place)).toEqual([]);
  const notRun = all.flatMap((block) => {
    const why = block.notRun ?? ELSEWHERE[block.language];
    return why === undefined ? [] : [`${place(block)} ${why}`];
  });
  console.log(notRun.join("\n"));
  expect(notRun.length).toBeLessThanOrEqual(12);
});

test("every TypeScript block compiles", async () => {
  expect(programs.size).toBeGreaterThan(5);
  expect(await typeErrors(join(folder.dir, "programs"))).toBe("");
});

test.each(pages)("the blocks of %s work in their order", async (page) => {
  const server = await createServer({ port: 0, memory: true, log: false });
  const walk = new Walk(server, relay, programs.get(page));
  try {
    for (const block of blocks.get(page)!) if (block.notRun === undefined) await walk.run(block);
    promises[page]?.(walk.output, seen);
  } finally {
    await walk.end();
    await server.close();
  }
});
