/**
 * The TypeScript of the manual as modules: one for each page, whose blocks run in their order and see what earlier blocks
 * declared. All modules are type-checked by one run of tsc; vitest loads and runs them.
 */
import { execFile } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Block, place } from "./blocks.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const STAGE = join(ROOT, "test/docs/stage.ts");
/** Names that the blocks of a page may use without declaring them. */
const GIVEN = [
  "address",
  "apply",
  "attemptNumber",
  "badge",
  "bill",
  "console",
  "createServer",
  "draw",
  "events",
  "file",
  "hideSpinner",
  "id",
  "model",
  "newSecret",
  "newSignal",
  "oldSecret",
  "process",
  "reloadSnapshot",
  "secret",
  "send",
  "show",
  "sluice",
  "Sluice",
  "snapshot",
  "userOf",
  "type Edit",
  "type Mail",
  "type Order",
];

export const isProgram = ({ language, isChecked }: Block): boolean =>
  isChecked && ["ts", "js", "tsx"].includes(language);

/** A generator that stops before each block and says its line. */
export type Program = () => AsyncGenerator<number, void>;

const fileName = (page: string, blocks: readonly Block[]): string =>
  `${page.replaceAll(/[^a-z]+/gi, "-")}.${blocks.some((block) => block.language === "tsx") ? "tsx" : "ts"}`;

/** Imports stand at the head of a module. Those of the stage replace what would leave traces outside of the test. */
function moduleOf(blocks: readonly Block[]): string {
  const imports = new Set<string>();
  const bodies = blocks.map((block) => {
    const text = block.text
      .replaceAll(/^import [^;]+;(?: *\/\/.*)?$/gm, (line) => {
        const isGiven = /\{ (Sluice|createServer) \}/.test(line);
        if (!isGiven) imports.add(line.replace('"@sluice/server/pubsub"', JSON.stringify(STAGE)));
        return "";
      })
      .replaceAll('"http://127.0.0.1:4437"', "address()");
    const body = `// ${place(block)}\nconst signal = newSignal(); void signal;\n${text}`;
    return block.notRun === undefined ? `yield ${block.line};\n{ ${body}` : `{ async function notRun() { ${body} }`;
  });
  return `import { ${GIVEN.join(", ")} } from ${JSON.stringify(STAGE)};
${[...imports].join("\n")}
void [${GIVEN.filter((name) => !name.startsWith("type ")).join(", ")}];
export async function* program(): AsyncGenerator<number, void> {
${bodies.join("\n")}
${"}".repeat(bodies.length)}
}
`;
}

/** Writes the modules into a folder outside of the repository. */
export function writePrograms(dir: string, pages: ReadonlyMap<string, readonly Block[]>): ReadonlyMap<string, string> {
  mkdirSync(dir, { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(dir, "node_modules"));
  const paths = new Map<string, string>();
  for (const [page, blocks] of pages) {
    const programs = blocks.filter(isProgram);
    if (programs.length === 0) continue;
    const path = join(dir, fileName(page, programs));
    writeFileSync(path, moduleOf(programs));
    paths.set(page, path);
  }
  const compilerOptions = {
    noEmit: true,
    module: "esnext",
    moduleResolution: "bundler",
    rewriteRelativeImportExtensions: false,
    allowImportingTsExtensions: true,
    composite: false,
    noUnusedLocals: false,
    noUnusedParameters: false,
    jsx: "react-jsx",
    lib: ["es2023", "dom", "dom.iterable", "esnext.disposable"],
    types: ["node"],
  };
  const extended = join(ROOT, "tsconfig.base.json");
  // Express brings no declarations.
  const untyped = join(dir, "untyped.d.ts");
  writeFileSync(untyped, 'declare module "express";\n');
  writeFileSync(
    join(dir, "tsconfig.json"),
    JSON.stringify({ extends: extended, compilerOptions, files: [...paths.values(), untyped] }),
  );
  return paths;
}

/** What tsc says about the modules; empty if all is well. */
export function typeErrors(dir: string): Promise<string> {
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  return new Promise((resolve) => {
    execFile(process.execPath, [tsc, "-p", dir], { cwd: dir }, (_, stdout, stderr) => resolve(stdout + stderr));
  });
}
