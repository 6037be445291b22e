// `npm start`: installs and builds what is missing, then becomes `sluice` itself. A first argument without a dash is a
// command;
// without arguments, or with a flag first, the command is `serve`.
// Invariants: it starts no child process, so that a signal to this process reaches the server, with its drain and its exit
// code.
import { fileURLToPath, pathToFileURL } from "node:url";
import { installAndBuild, root } from "./install.mjs";

/** Flags of `sluice` itself, which belong to no command. */
const OWN_FLAGS = ["--help", "-h", "--version", "-V"];

installAndBuild();
const given = process.argv.slice(2);
const isCommand = given.length > 0 && (!given[0].startsWith("-") || OWN_FLAGS.includes(given[0]));
const args = isCommand ? given : ["serve", ...given];
const bin = new URL("packages/server/bin/sluice.js", pathToFileURL(root));
process.argv.splice(1, process.argv.length, fileURLToPath(bin), ...args);
await import(bin.href);
