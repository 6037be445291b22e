// `npm run bench`: installs what a benchmark needs, then runs bench/main.ts with the arguments.
// It checks in this order: this repository's packages and build, the peers in bench/package.json, and wrk and Redis from the
// system.
// The peers go into bench/node_modules, so that other developers need not fetch them.
// Invariants: the script names a program that it cannot install; the benchmark skips the parts that need it and says so in
// its result.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bench = join(root, "bench");
const PROGRAMS = { wrk: "wrk", "redis-server": "redis-server", "redis-benchmark": "redis-tools" };

function run(command, args, env = {}) {
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: "inherit", env: { ...process.env, ...env } });
  return error === undefined && status === 0;
}

function mustRun(command, args) {
  if (!run(command, args)) {
    console.error(`bench: "${command} ${args.join(" ")}" failed`);
    process.exit(1);
  }
}

function answers(command, args) {
  return spawnSync(command, args, { stdio: "ignore" }).status === 0;
}

function installMissingPrograms() {
  const missing = Object.keys(PROGRAMS).filter((program) => !answers("which", [program]));
  if (missing.length === 0) return;
  const packages = [...new Set(missing.map((program) => PROGRAMS[program]))];
  const prefix = process.getuid?.() === 0 ? [] : answers("sudo", ["-n", "true"]) ? ["sudo", "-n"] : undefined;
  if (prefix && answers("which", ["apt-get"])) {
    // Run level 1 keeps the Redis package from starting a service of its own.
    const apt = (...args) => [...prefix, "env", "RUNLEVEL=1", "DEBIAN_FRONTEND=noninteractive", "apt-get", ...args];
    const install = apt("install", "--yes", "--no-install-recommends", ...packages);
    const [command, ...args] = install;
    if (run(command, args)) return;
    const [update, ...updateArgs] = apt("update");
    if (run(update, updateArgs) && run(command, args)) return;
  }
  console.error(`bench: ${missing.join(", ")} not found. On Debian: apt-get install ${packages.join(" ")}`);
  console.error("bench: the comparisons that need them are left out.");
}

if (!existsSync(join(root, "node_modules", "tsx"))) mustRun("npm", ["install", "--no-save"]);
const { dependencies } = JSON.parse(readFileSync(join(bench, "package.json"), "utf8"));
if (Object.keys(dependencies).some((name) => !existsSync(join(bench, "node_modules", name)))) {
  mustRun("npm", ["install", "--no-save", "--prefix", bench]);
}
mustRun("npm", ["run", "--silent", "build"]);
installMissingPrograms();

const { status } = spawnSync(process.execPath, ["--import", "tsx", join(bench, "main.ts"), ...process.argv.slice(2)], {
  cwd: root,
  stdio: "inherit",
});
process.exit(status ?? 1);
