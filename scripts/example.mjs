// `npm run example <name>`: installs and builds what is missing, then runs examples/<name>/main.ts with the other arguments.
import { spawn } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { installAndBuild, root } from "./install.mjs";

const [name, ...args] = process.argv.slice(2);
const mainOf = (example) => `${root}examples/${example}/main.ts`;
const names = readdirSync(`${root}examples`).filter((example) => existsSync(mainOf(example)));
if (!names.includes(name)) {
  console.error(name === undefined ? "Which example?" : `There is no example called ${name}.`);
  console.error(`Try: ${names.map((example) => `npm run example ${example}`).join(", ")}`);
  process.exit(2);
}

installAndBuild();
const child = spawn(process.execPath, ["--import", "tsx", mainOf(name), ...args], { cwd: root, stdio: "inherit" });
// A signal to npm's process group reaches the child by itself; this passes on a signal to this process alone.
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => process.exit(signal ? 1 : (code ?? 1)));
