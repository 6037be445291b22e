// `npm start`: installs and builds what is missing, then becomes `sluice serve`, or the command named first. It starts no
// process of its own for that, so that whoever ends this one ends the server, with its drain and its exit code.
import { fileURLToPath, pathToFileURL } from "node:url";
import { installAndBuild, root } from "./install.mjs";

const commands = "bench channel config context doctor help publish serve session stream token".split(" ");
const questions = ["--help", "-h", "--version", "-V"];

installAndBuild();
const given = process.argv.slice(2);
const args = [...commands, ...questions].includes(given[0]) ? given : ["serve", ...given];
const bin = new URL("packages/server/bin/sluice.js", pathToFileURL(root));
process.argv.splice(1, process.argv.length, fileURLToPath(bin), ...args);
await import(bin.href);
