// Writes engine/redis/lua.ts from the files of engine/redis/lua/; with --check it only says whether that would change anything.
//
// The functions of Redis are a module, checked in: `tsc` copies no .lua files, and a module reaches dist, the npm package, the
// container and the tests like all other code, without a build step or a file to read at run time. test/tidy runs --check.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

const folder = new URL("../packages/server/src/engine/redis/lua/", import.meta.url);
const target = new URL("../packages/server/src/engine/redis/lua.ts", import.meta.url);

const names = readdirSync(folder)
  .filter((name) => name.endsWith(".lua"))
  .sort();
const lines = names.map((name) => {
  const text = readFileSync(new URL(name, folder), "utf8");
  return `  ${name.slice(0, -".lua".length)}: ${JSON.stringify(text)},\n`;
});
const text = `// Made by scripts/lua-module.mjs from lua/*.lua: edit those, then run it again.
// biome-ignore-all format: made by a script
export const LUA = {
${lines.join("")}};
`;

if (!process.argv.includes("--check")) writeFileSync(target, text);
else if (readFileSync(target, "utf8") !== text) {
  console.error("engine/redis/lua.ts is not what lua/*.lua make it: run node scripts/lua-module.mjs");
  process.exitCode = 1;
}
