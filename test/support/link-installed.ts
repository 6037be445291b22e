/**
 * Does what `npm install` would do in a copy of this repository: links the installed packages, and the repository's own packages
 * from the copy. The tests of the image and of the packages use it, because a real install costs seconds and a network.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));

export function linkInstalled(folder: string): void {
  const modules = join(folder, "node_modules");
  const own = new Map(
    readdirSync(join(folder, "packages")).map((name) => [nameOf(join(folder, "packages", name)), name]),
  );
  for (const name of readdirSync(join(ROOT, "node_modules"))) {
    if (name !== "@sluice" && !name.startsWith(".package-lock") && !own.has(name))
      link(join(ROOT, "node_modules", name), join(modules, name));
  }
  // Newer than the lockfile: nothing is missing. An install here would reach through the links.
  writeFileSync(join(modules, ".package-lock.json"), "{}");
  for (const [name, place] of own) {
    link(join(folder, "packages", place), join(modules, name));
    const nested = join("packages", place, "node_modules");
    if (existsSync(join(ROOT, nested)) && !existsSync(join(folder, nested))) {
      link(join(ROOT, nested), join(folder, nested));
    }
  }
}

export function nameOf(folder: string): string {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).name;
}

export function link(target: string, at: string): void {
  mkdirSync(dirname(at), { recursive: true });
  symlinkSync(target, at);
}
