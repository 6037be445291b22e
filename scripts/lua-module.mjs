// Writes engine/redis/generated-lua.ts from the files of engine/redis/lua/; with --check it only says whether the module is stale.
// An argument names another folder than engine/redis. Developers run it after a change; test/tidy runs --check.
//
// The functions of Redis are a checked-in module because `tsc` copies no .lua files. A module reaches dist, the npm package,
// the container and the tests like other code, without a build step or a file to read at run time.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const isCheck = process.argv.includes("--check");
const named = process.argv.slice(2).find((word) => word !== "--check");
const folder = named ?? fileURLToPath(new URL("../packages/server/src/engine/redis", import.meta.url));
const target = join(folder, "generated-lua.ts");

const names = readdirSync(join(folder, "lua"))
  .filter((name) => name.endsWith(".lua"))
  .sort();
const lines = names.map((name) => {
  const text = readFileSync(join(folder, "lua", name), "utf8");
  return `  ${name.slice(0, -".lua".length)}: ${JSON.stringify(text)},\n`;
});
const text = `// Made by scripts/lua-module.mjs from lua/*.lua: edit those, then run it again.
// biome-ignore-all format: made by a script
export const LUA = {
${lines.join("")}};
`;

if (!isCheck) writeFileSync(target, text);
else if (readFileSync(target, "utf8") !== text) {
  console.error("engine/redis/generated-lua.ts is stale: run node scripts/lua-module.mjs");
  process.exitCode = 1;
}
