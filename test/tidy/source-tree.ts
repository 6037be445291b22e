/**
 * The files of this repository as the tidy rules see them: path, text, imports and the outside names they use.
 *
 * Invariants: everything is read from the syntax tree, so that comments and strings never count.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { parseAst } from "vitest/node";

export interface Place {
  readonly name: string;
  readonly line: number;
}

export interface Source {
  /** From the root of the repository, with forward slashes. */
  readonly path: string;
  readonly text: string;
  readonly isTest: boolean;
  /** Every import, re-export and dynamic import, types included. */
  readonly imports: readonly Place[];
  /** Used identifiers, dotted where they are members: `Date.now`, `Buffer`, `it.each`. */
  readonly uses: readonly Place[];
  /** `Class()` for every `new Class()` without arguments. */
  readonly bareNews: readonly Place[];
  /** Names of the properties of object literals. */
  readonly properties: readonly Place[];
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly [field: string]: unknown;
}

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const ROOTS = ["packages", "test", "scripts", "bench", "examples", "vitest.config.ts"];
const NOT_OURS = new Set(["node_modules", "dist", "results"]);

export function sourceTree(): Source[] {
  return ROOTS.flatMap((path) => pathsUnder(path)).map((path) =>
    sourceOf(path, readFileSync(join(ROOT, path), "utf8")),
  );
}

export function lockFile(): Pick<Source, "path" | "text"> {
  return { path: "package-lock.json", text: readFileSync(join(ROOT, "package-lock.json"), "utf8") };
}

function pathsUnder(path: string): string[] {
  if (/\.(ts|js|mjs)$/.test(path)) return [path];
  try {
    const names = readdirSync(join(ROOT, path)).filter((name) => !NOT_OURS.has(name) && !name.startsWith("."));
    return names.flatMap((name) => pathsUnder(posix.join(path, name)));
  } catch (fault) {
    const { code } = fault as { code?: string };
    if (code === "ENOTDIR" || code === "ENOENT") return [];
    throw fault;
  }
}

export function sourceOf(path: string, text: string): Source {
  const imports: Place[] = [];
  const uses: Place[] = [];
  const bareNews: Place[] = [];
  const properties: Place[] = [];
  const lineAt = (offset: number) => text.slice(0, offset).split("\n").length;
  const visit = (node: Node): void => {
    const line = () => lineAt(node.start);
    const source = node.source as { value?: unknown } | null | undefined;
    if (typeof source?.value === "string") imports.push({ name: source.value, line: line() });
    if (node.type === "NewExpression" && (node.arguments as unknown[]).length === 0) {
      bareNews.push({ name: `${dotted(node.callee as Node)}()`, line: line() });
    }
    if (node.type === "Property") properties.push({ name: dotted(node.key as Node) ?? "", line: line() });
    const name = dotted(node);
    if (name !== undefined) uses.push({ name, line: line() });
    // The parts of `a.b` are not uses of their own.
    if (name === undefined || node.type === "Identifier") for (const child of children(node)) visit(child);
  };
  visit(parseAst(text, { lang: path.endsWith(".ts") ? "ts" : "js" }) as unknown as Node);
  const isTest = /^test\/|\.test\.ts$/.test(path);
  return { path, text, isTest, imports, uses, bareNews, properties };
}

/** `a`, `a.b` or `this.b.c`; undefined for an expression that is not made of names alone. */
function dotted(node: Node): string | undefined {
  if (node.type === "Identifier") return node.name as string;
  if (node.type === "ThisExpression") return "this";
  if (node.type !== "MemberExpression" || node.computed === true) return undefined;
  const object = dotted(node.object as Node);
  return object && `${object}.${(node.property as Node).name as string}`;
}

/** The nodes below a node, without names that only label something (keys, members of unnamed values). */
function children(node: Node): Node[] {
  const found: Node[] = [];
  for (const [field, value] of Object.entries(node)) {
    const labels = (field === "key" || field === "property") && node.computed !== true;
    if (labels && (value as Node).type === "Identifier" && node.shorthand !== true) continue;
    for (const child of Array.isArray(value) ? value : [value]) {
      if (typeof child === "object" && child !== null && typeof (child as Node).type === "string")
        found.push(child as Node);
    }
  }
  return found;
}
