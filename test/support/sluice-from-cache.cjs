// Starts the bundled `sluice` command beside this file from V8's code cache, because most of a start is compiling. Without a
// cache, or with one that this Node.js does not accept, it compiles as usual. `server-bundle.ts` copies it next to the bundle.
const { readFileSync, writeFileSync } = require("node:fs");
const { join } = require("node:path");
const vm = require("node:vm");

const file = join(__dirname, "bundle.cjs");
const cache = `${file}.cache`;
const isWriting = process.env.WRITE_CODE_CACHE === "1";
const script = new vm.Script(`(function (require, __filename) {${readFileSync(file, "utf8")}\n})`, {
  filename: file,
  cachedData: isWriting ? undefined : readFileSync(cache),
  importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
});
// At the exit the cache has every function that the run has compiled.
if (isWriting) process.on("exit", () => writeFileSync(cache, script.createCachedData()));
script.runInThisContext()(require, file);
