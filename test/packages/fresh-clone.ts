/**
 * A copy of the repository that was never built, and the tarballs that `npm pack` makes of it. The tests of the packages and of
 * the image share one, because a build from nothing takes longer than the rest of either.
 *
 * Invariants: the copy holds the sources only, so that a package lacks whatever its `prepack` does not make.
 */
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { linkInstalled, ROOT } from "../support/link-installed.ts";

const SOURCES = [
  "packages",
  "scripts",
  "package.json",
  "package-lock.json",
  "LICENSE",
  "tsconfig.json",
  "tsconfig.base.json",
];
const MADE_BY_A_BUILD = /\/(node_modules|dist|LICENSE)$|\.tsbuildinfo$/;

export function freshClone(clone: string): void {
  const isSource = (path: string) =>
    !MADE_BY_A_BUILD.test(path.slice(ROOT.length - 1)) || path === join(ROOT, "LICENSE");
  for (const name of SOURCES) cpSync(join(ROOT, name), join(clone, name), { recursive: true, filter: isSource });
  linkInstalled(clone);
}

/** The folders of the packages. */
export function workspaces(root: string): string[] {
  return readdirSync(join(root, "packages")).map((name) => join(root, "packages", name));
}

/** The tarballs of all packages. The first `prepack` builds the clone. */
export function pack(clone: string, destination: string): string[] {
  mkdirSync(destination);
  const flags = workspaces(clone).flatMap((folder) => ["--workspace", folder]);
  execFileSync("npm", ["pack", "--silent", "--pack-destination", destination, ...flags], { cwd: clone });
  return readdirSync(destination).map((name) => join(destination, name));
}

/**
 * Puts what the clone's build made beside the same sources elsewhere, as hard links. It is older than these, so the compiler
 * compares them by content, and builds anew what differs.
 */
export function reuseBuild(clone: string, folder: string): void {
  for (const name of readdirSync(join(folder, "packages"))) {
    const [from, to] = [clone, folder].map((root) => join(root, "packages", name)) as [string, string];
    if (!existsSync(join(to, "src"))) continue;
    const made = readdirSync(from).filter((file) => file === "dist" || file.endsWith(".tsbuildinfo"));
    execFileSync("cp", ["-Rl", ...made.map((file) => join(from, file)), to]);
  }
}
