// `npm run bench`: makes sure that everything a benchmark needs is there, then runs bench/main.ts with the arguments.
// Needs are met in this order: this repository's packages and build, the peers in bench/package.json (installed into
// bench/node_modules, so that nobody who does not benchmark has to fetch them), and wrk and Redis from the system.
// What cannot be installed is named; the benchmark then leaves out what needs it and says so in its result.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
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

if (!existsSync(join(root, "node_modules", "tsx"))) mustRun("npm", ["install"]);
if (!existsSync(join(bench, "node_modules", "@durable-streams", "server"))) {
  mustRun("npm", ["install", "--prefix", bench]);
}
mustRun("npm", ["run", "--silent", "build"]);
installMissingPrograms();

const { status } = spawnSync(process.execPath, ["--import", "tsx", join(bench, "main.ts"), ...process.argv.slice(2)], {
  cwd: root,
  stdio: "inherit",
});
process.exit(status ?? 1);
