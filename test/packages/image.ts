/**
 * The build steps of `deploy/Dockerfile`, without a container engine. Each stage copies into an empty folder and runs there. The
 * installed packages stand in for those that the build would fetch, and the build of a fresh clone for most of the compiler's work.
 *
 * Invariants: a stage sees only the files that its steps copy.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { linkInstalled, ROOT } from "../support/link-installed.ts";
import { reuseBuild } from "./fresh-clone.ts";

const NOT_IN_THE_CONTEXT = /\/(node_modules|dist)(\/|$)|\.tsbuildinfo$|\.test\.ts$/;

interface Stage {
  readonly name: string;
  readonly steps: readonly string[];
}

function stagesOf(dockerfile: string): Stage[] {
  const lines = dockerfile.replaceAll("\\\n", " ").split("\n");
  const stages: { name: string; steps: string[] }[] = [];
  for (const line of lines.filter((text) => text !== "" && !text.startsWith("#"))) {
    const from = /^FROM \S+(?: AS (\S+))?$/.exec(line);
    if (from !== null) stages.push({ name: from[1] ?? "", steps: [] });
    else stages.at(-1)!.steps.push(line);
  }
  return stages;
}

/** Reads `COPY [--from=stage] source... target`. */
function copy(step: string, folder: string, folders: ReadonlyMap<string, string>): void {
  const words = step.split(" ").slice(1);
  const from = words[0]!.startsWith("--from=") ? words.shift()!.slice("--from=".length) : undefined;
  const target = words.pop()!;
  for (const source of words) {
    const path = from === undefined ? join(ROOT, source) : source.replace(/^\/(src|app)/, folders.get(from)!);
    const isFile = statSync(path).isFile();
    const to = join(folder, target, isFile && target.endsWith("/") ? basename(path) : "");
    mkdirSync(isFile ? dirname(to) : to, { recursive: true });
    // Hard links are enough of a stage that no step changes any more.
    if (from !== undefined) execFileSync("cp", ["-RPl", isFile ? path : `${path}/.`, to]);
    else cpSync(path, to, { recursive: true, filter: (one) => !NOT_IN_THE_CONTEXT.test(one.slice(ROOT.length)) });
  }
}

function run(folder: string, command: string): void {
  const { status, stdout, stderr } = spawnSync("sh", ["-c", command], { cwd: folder, encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ended with ${status}: ${stdout}${stderr}`);
}

/** Returns the folder of the last stage: what the image holds at /app. */
export function buildImage(base: string, clone: string): string {
  const folders = new Map<string, string>();
  for (const { name, steps } of stagesOf(readFileSync(join(ROOT, "deploy/Dockerfile"), "utf8"))) {
    const folder = join(base, name || "image");
    mkdirSync(folder);
    folders.set(name, folder);
    for (const step of steps) {
      if (step.startsWith("COPY ")) copy(step, folder, folders);
      else if (/^RUN npm install/.test(step)) linkInstalled(folder);
      else if (/^RUN npx tsc/.test(step)) {
        reuseBuild(clone, folder);
        run(folder, step.slice("RUN ".length));
      }
    }
  }
  const image = folders.get("")!;
  // The repository's own packages are linked to their place of installation; in the image that is the same place.
  rmSync(join(image, "node_modules"), { recursive: true, force: true });
  linkInstalled(image);
  return image;
}
