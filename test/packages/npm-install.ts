/** npm as a stranger runs it, in a folder outside the repository. Packages that npm has cached need no network. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { cleanEnv } from "../support/sluice-process.ts";

const FLAGS = ["--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts=false"];
/** Set by the npm that runs the tests, and naming its own folder, among others. */
const OF_AN_OUTER_NPM = /^npm_(?!config_(cache|registry|userconfig)$)/i;

export const strangersEnv = (): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(cleanEnv()).filter(([name]) => !OF_AN_OUTER_NPM.test(name)));

export async function npmInstall(folder: string, packages: readonly string[]): Promise<void> {
  // One thread for files, because several of them spend up to half as much time again on waiting for each other.
  const env = { ...strangersEnv(), UV_THREADPOOL_SIZE: "1" };
  await promisify(execFile)("npm", ["install", ...FLAGS, ...packages], { cwd: folder, env });
}
