import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { expect, test } from "vitest";
import { pages, textOf } from "./blocks.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const ALL = [
  ...pages,
  "ARCHITECTURE.md",
  "CONTRIBUTING.md",
  "bench/README.md",
  "deploy/README.md",
  "examples/README.md",
];

/** The anchor that Git hosts give a heading. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");

function anchors(path: string): string[] {
  const headings = readFileSync(path, "utf8").matchAll(/^#+ (.+)$/gm);
  return [...headings].map(([, heading]) => anchorOf(heading!));
}

/** Whether a link leads to a file of the repository, and to a heading in it if it names one. */
function leads(page: string, link: string): boolean {
  const [file, anchor] = link.split("#") as [string, string | undefined];
  const path = file === "" ? join(ROOT, page) : resolve(ROOT, dirname(page), file);
  return existsSync(path) && (anchor === undefined || anchors(path).includes(anchor));
}

test("every link between the pages leads to a file and a heading that exist", () => {
  const links = ALL.flatMap((page) =>
    [...textOf(page).matchAll(/\]\((?!https?:)([^)\s]+)\)/g)].map(([, link]) => ({ page, link: link! })),
  );
  expect(links.length).toBeGreaterThan(100);
  expect(links.filter(({ page, link }) => !leads(page, link)).map(({ page, link }) => `${page}: ${link}`)).toEqual([]);
});

test("no page leaves the reader to guess who is meant", () => {
  const vague = /\b(whoever|nobody|somebody|everybody|anybody)\b/i;
  const lines = ALL.flatMap((page) =>
    textOf(page)
      .split("\n")
      .map((line, i) => ({ place: `${page}:${i + 1}`, line })),
  );
  expect(lines.filter(({ line }) => vague.test(line)).map(({ place }) => place)).toEqual([]);
});

test("every setting that a page names exists", () => {
  const settings = new Set(
    [...textOf("docs/configuration.md").matchAll(/^- \*\*`([^`]+)`\*\*/gm)].map(([, name]) => name!),
  );
  const groups = new Set([...settings].flatMap((name) => (name.includes(".") ? [name.split(".")[0]!] : [])));
  const named = pages.flatMap((page) =>
    [...textOf(page).matchAll(/`([a-z]+)\.([a-zA-Z]+)`/g)].map(([, group, name]) => ({
      page,
      group: group!,
      name: name!,
    })),
  );
  const unknown = named.filter(({ group, name }) => groups.has(group) && !settings.has(`${group}.${name}`));
  expect(named.length).toBeGreaterThan(50);
  expect(unknown).toEqual([]);
});

test("the README links every page of the manual", () => {
  const readme = textOf("README.md");
  expect(pages.slice(1).filter((page) => !readme.includes(`](${page})`))).toEqual([]);
});
