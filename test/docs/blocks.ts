/**
 * The code blocks of README.md and docs/, with the place of each. `docs.test.ts` runs them.
 *
 * A block that cannot run in a test has a comment in the line before it: `<!-- not run: needs Docker -->`. TypeScript is
 * type-checked all the same, unless the comment says `not checked`.
 */
import { readdirSync, readFileSync } from "node:fs";

const ROOT = new URL("../../", import.meta.url);

export interface Block {
  /** Path from the root of the repository. */
  readonly file: string;
  /** The line of the opening fence, from 1. */
  readonly line: number;
  /** The info string; empty if there is none. */
  readonly language: string;
  readonly text: string;
  /** Why the block does not run; undefined if it runs. */
  readonly notRun: string | undefined;
  readonly isChecked: boolean;
}

export const pages: readonly string[] = [
  "README.md",
  ...readdirSync(new URL("docs/", ROOT))
    .filter((name) => name.endsWith(".md"))
    .sort()
    .map((name) => `docs/${name}`),
];

export const place = ({ file, line }: Pick<Block, "file" | "line">): string => `${file}:${line}`;

export const textOf = (page: string): string => readFileSync(new URL(page, ROOT), "utf8");

export function blocksOf(file: string, text = textOf(file)): Block[] {
  const lines = text.split("\n");
  const blocks: Block[] = [];
  for (let at = 0; at < lines.length; at++) {
    const opening = /^(\s*)```(.*)$/.exec(lines[at]!);
    if (opening === null) continue;
    const [, indent, language] = opening;
    const end = lines.indexOf(`${indent}\`\`\``, at + 1);
    if (end < 0) throw new Error(`${file}:${at + 1}: the block has no end`);
    const [, verb, notRun] = /^\s*<!-- not (run|checked): (.+) -->$/.exec(lines[at - 1] ?? "") ?? [];
    const body = lines.slice(at + 1, end).map((line) => line.slice(indent!.length));
    const block = { file, line: at + 1, language: language!.trim(), text: `${body.join("\n")}\n` };
    blocks.push({ ...block, notRun, isChecked: verb !== "checked" });
    at = end;
  }
  return blocks;
}
