// Makes a fresh clone ready: installs the packages of package-lock.json, then builds. The other scripts call it first.
// Invariants: a step that is already done is not repeated.
import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));

/** Runs a command on this process's standard streams; exits this process when the command fails. */
export function run(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: "inherit", ...options });
  if (error) console.error(`${command}: ${error.message}`);
  if (status !== 0) process.exit(status ?? 1);
}

export function bin(name) {
  return `${root}node_modules/.bin/${name}`;
}

function changedAt(path) {
  return existsSync(path) ? statSync(path).mtimeMs : 0;
}

/** The steps write to stderr, so that stdout belongs to the command that runs afterwards. */
const quiet = { stdio: ["ignore", 2, 2] };

export function installAndBuild(...buildFlags) {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major < 20 || (major === 20 && minor < 15)) {
    console.error(`Sluice needs Node.js 20.15 or newer; this is ${process.version}`);
    process.exit(1);
  }
  if (changedAt(`${root}node_modules/.package-lock.json`) < changedAt(`${root}package-lock.json`)) {
    // Not `npm ci`: it requires every platform's binaries in the lockfile, even those that a registry lacks.
    run("npm", ["install", "--no-save", "--no-audit", "--no-fund"], quiet);
  }
  run(bin("tsc"), ["-b", ...buildFlags], quiet);
}
