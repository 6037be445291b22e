/** npm as a stranger runs it, in a folder outside the repository. Packages that npm has cached need no network. */
import { execFile, execFileSync } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { ROOT } from "../support/link-installed.ts";
import { cleanEnv } from "../support/sluice-process.ts";

const FLAGS = ["--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts=false"];
/** Set by the npm that runs the tests, and naming its own folder, among others. */
const OF_AN_OUTER_NPM = /^npm_(?!config_(cache|registry|userconfig)$)/i;

export const strangersEnv = (): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(cleanEnv()).filter(([name]) => !OF_AN_OUTER_NPM.test(name)));

export async function npmInstall(
  folder: string,
  packages: readonly string[],
  flags: readonly string[] = [],
): Promise<void> {
  // One thread for files, because several of them spend up to half as much time again on waiting for each other.
  const env = { ...strangersEnv(), UV_THREADPOOL_SIZE: "1" };
  await promisify(execFile)("npm", ["install", ...FLAGS, ...flags, ...packages], { cwd: folder, env });
}

/**
 * Puts what these packages need from others into a folder before npm installs the packages there. npm keeps a dependency that
 * fits, and fetches the others.
 */
export function installDependencies(folder: string, packages: readonly string[]): void {
  const modules = join(folder, "node_modules");
  const taken = new Set<string>();
  const takeAllOf = (dependent: string) => {
    const { dependencies, optionalDependencies } = JSON.parse(readFileSync(join(dependent, "package.json"), "utf8"));
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const from = installed(name, dependent);
      if (from === undefined || taken.has(name) || lstatSync(from).isSymbolicLink()) continue;
      taken.add(name);
      copyFolder(from, join(modules, name));
      takeAllOf(from);
    }
  };
  for (const dependent of packages) takeAllOf(dependent);
  linkCommands(modules);
}

/** npm fetches a package again whose command is not there. */
function linkCommands(modules: string): void {
  const [from, to] = [join(ROOT, "node_modules/.bin"), join(modules, ".bin")];
  mkdirSync(to);
  for (const name of readdirSync(from)) {
    const target = readlinkSync(join(from, name));
    if (existsSync(join(to, target))) symlinkSync(target, join(to, name));
  }
}

/** Where Node finds a package from a folder; undefined if it is for another platform. The repository's own are links. */
function installed(name: string, from: string): string | undefined {
  const folder = join(from, "node_modules", name);
  if (existsSync(folder)) return folder;
  return from === dirname(from) ? undefined : installed(name, dirname(from));
}

/** By hard links, which take less time; by a copy where the folders are on two file systems. */
function copyFolder(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  try {
    execFileSync("cp", ["-Rl", from, to], { stdio: "ignore" });
  } catch {
    rmSync(to, { recursive: true, force: true });
    execFileSync("cp", ["-R", from, to]);
  }
}
