// `npm test`: installs and builds what is missing, then everything that must hold, the quick checks first.
// `--deep` runs the randomised suites with many more seeds. Other arguments go to vitest, to run a part.
import { bin, installAndBuild, root, run } from "./install.mjs";

const args = process.argv.slice(2);
const isDeep = args.includes("--deep");
const rest = args.filter((arg) => arg !== "--deep");
const env = { ...process.env, ...(isDeep ? { SLUICE_DEEP: "1" } : {}) };

installAndBuild();
if (rest.length === 0) {
  run(bin("biome"), ["check", "--error-on-warnings", root]);
  run(bin("tsc"), ["-p", "test"]);
}
run(bin("vitest"), ["run", ...rest], { env });
