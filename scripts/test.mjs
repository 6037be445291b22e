// `npm test`: installs and builds what is missing, then runs every check and suite, the quick ones first.
// `--deep` runs the randomized suites with many more seeds. Other arguments go to vitest, to run a part.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { bin, installAndBuild, root, run } from "./install.mjs";

/** Programs that the suites need from the system, with the Debian package of each. */
const programs = { bash: "bash", chromium: "chromium", curl: "curl", "redis-server": "redis-server" };

const isThere = (command, ...args) => spawnSync(command, args, { stdio: "ignore" }).status === 0;

function installPrograms() {
  const missing = Object.keys(programs).filter((name) => !isThere(name, "--version"));
  if (missing.length === 0) return;
  const packages = missing.map((name) => programs[name]);
  const sudo = process.getuid?.() === 0 ? [] : ["sudo", "-n"];
  if (isThere("apt-get", "--version") && (sudo.length === 0 || isThere("sudo", "-n", "true"))) {
    const apt = (...args) => [...sudo, "apt-get", ...args];
    // A system that was never updated has no list of packages, or an old one.
    const [update, ...updateArgs] = apt("update");
    run(update, updateArgs);
    const [install, ...installArgs] = apt("install", "--yes", "--no-install-recommends", ...packages);
    run(install, installArgs);
  } else {
    console.error(`The tests need ${missing.join(" and ")}. Install: ${packages.join(" ")}`);
    process.exit(1);
  }
}

/** Runs the checks side by side, because Biome uses one processor; shows what each has said, and exits if one fails. */
async function check(...commands) {
  const codes = await Promise.all(
    commands.map(async ([name, ...args]) => {
      const child = spawn(bin(name), args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
      const chunks = [];
      for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => chunks.push(chunk));
      const [code] = await once(child, "close");
      process.stdout.write(Buffer.concat(chunks));
      return code;
    }),
  );
  const failed = codes.find((code) => code !== 0);
  if (failed !== undefined) process.exit(failed ?? 1);
}

const args = process.argv.slice(2);
const isDeep = args.includes("--deep");
const rest = args.filter((arg) => arg !== "--deep");
const env = { ...process.env, ...(isDeep ? { SLUICE_DEEP: "1" } : {}) };

installPrograms();
installAndBuild();
if (rest.length === 0) {
  await check(["biome", "check", "--error-on-warnings", root], ["tsc", "-p", "test"], ["tsc", "-p", "examples"]);
}
run(bin("vitest"), ["run", ...rest], { env });
if (isDeep && rest.length === 0) {
  // The suites that go through the HTTP door, once more with Node's own parser for every request.
  const suites = ["auth", "channels", "client", "e2e", "live", "observe", "sessions", "shards", "wakes"];
  const paths = suites.map((name) => `test/${name}/`);
  run(bin("vitest"), ["run", ...paths], { env: { ...process.env, SLUICE_LANE: "off" } });
}
