// `npm start`: installs and builds what is missing, then runs `sluice serve`, or the command named first.
import { spawn } from "node:child_process";
import { installAndBuild, root } from "./install.mjs";

const commands = ["serve", "stream", "token", "context", "config", "bench", "doctor", "help"];
const questions = ["--help", "-h", "--version", "-V"];

installAndBuild();
const given = process.argv.slice(2);
const args = [...commands, ...questions].includes(given[0]) ? given : ["serve", ...given];
const child = spawn(process.execPath, [`${root}packages/server/bin/sluice.js`, ...args], { stdio: "inherit" });
// A signal to npm's process group reaches the child by itself; one to us alone is passed on.
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => process.exit(signal ? 1 : (code ?? 1)));
