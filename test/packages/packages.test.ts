/**
 * The packages and the image as a stranger gets them. The packages are packed from a copy of the repository that was never
 * built, installed by npm in a folder of its own, then run, imported, type-checked and bundled there. The folder has nothing but
 * the dependencies that the packages declare; with `SLUICE_DEEP=1` it is empty, and npm fetches these too.
 */
import { execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { temporaryDir } from "../support/disk.ts";
import { ROOT } from "../support/link-installed.ts";
import { cleanEnv } from "../support/sluice-process.ts";
import { freshClone, pack, workspaces } from "./fresh-clone.ts";
import { buildImage } from "./image.ts";
import { installDependencies, npmInstall, strangersEnv } from "./npm-install.ts";
import { openRegistry } from "./registry.ts";
import { typeCheck } from "./type-check.ts";

const PACKAGES = ["@sluice/client", "@sluice/protocol", "@sluice/server", "sluice"];

/** Both TypeScript and JavaScript, so that the same text is checked and run. */
const PROGRAM = `import { createServer } from "sluice";
import { Sluice } from "@sluice/client";

const server = await createServer({ port: 0, memory: true, log: false });
const room = new Sluice({ url: server.url }).stream("chat/room1");
await room.append({ text: "hello" });
await room.append({ text: "world" });
for await (const item of room.read()) {
  if (item.type === "message") console.log(item.offset, item.value);
}
await server.close();
`;

const BUNDLED = `import { Sluice } from "@sluice/client";
const stream = new Sluice({ url: URL_OF_THE_SERVER }).stream("from/a/bundle");
await stream.append({ works: true });
for await (const item of stream.read()) if (item.type === "message") console.log(item.value);
`;

interface Manifest {
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly keywords?: readonly string[];
  readonly repository?: { readonly url: string; readonly directory: string };
}

function manifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

/** The files that a source map names and the package does not hold. */
function missingSources(folder: string): string[] {
  const files = readdirSync(join(folder, "dist"), { recursive: true, encoding: "utf8" });
  return files
    .filter((file) => file.endsWith(".map"))
    .flatMap((file) => {
      const path = join(folder, "dist", file);
      const { sources } = JSON.parse(readFileSync(path, "utf8")) as { sources: string[] };
      return sources.map((source) => join(dirname(path), source));
    })
    .filter((path) => !existsSync(path));
}

/** What the user types in an empty folder. The command and its server end with their process group. */
async function serving(app: string, use: (url: string) => Promise<void>): Promise<void> {
  const args = ["sluice", "serve", "--port", "0"];
  const env = strangersEnv();
  const child = spawn("npx", args, { cwd: app, env, stdio: ["ignore", "pipe", "ignore"], detached: true });
  const ended = once(child, "exit");
  try {
    const said = once(child.stdout.setEncoding("utf8"), "data");
    const [line] = await Promise.race([said, ended.then(() => ["no server"])]);
    expect(line).toMatch(/^sluice ready http:/);
    await use(line.trim().split(" ").at(-1));
  } finally {
    if (child.exitCode === null) process.kill(-child.pid!, "SIGTERM");
    await ended;
  }
}

const run = async (file: string) => (await promisify(execFile)(process.execPath, [file])).stdout;

describe("from a fresh clone", () => {
  const { dir: base, remove } = temporaryDir();
  const clone = join(base, "clone");
  const app = join(base, "app");
  const folders = PACKAGES.map((name) => join(app, "node_modules", name));

  beforeAll(async () => {
    freshClone(clone);
    const tarballs = pack(clone, join(base, "tarballs"));
    // The declarations of Node that the oldest TypeScript can read; the newest ones are for newer compilers.
    const devDependencies = { "@types/node": manifest(ROOT).devDependencies["@types/node"] };
    mkdirSync(app);
    writeFileSync(join(app, "package.json"), JSON.stringify({ private: true, type: "module", devDependencies }));
    // The deep run lets npm fetch the dependencies too.
    if (process.env.SLUICE_DEEP !== "1") installDependencies(app, workspaces(ROOT));
    const registry = await openRegistry(tarballs);
    // npm asks this registry for a scope; the package without one is installed from its file.
    const unscoped = tarballs.filter((path) => /\/sluice-\d/.test(path));
    const scoped = PACKAGES.filter((name) => name.startsWith("@"));
    await npmInstall(app, [...unscoped, ...scoped], [`--@sluice:registry=${registry.url}`]);
    registry.close();
  }, 600_000);
  afterAll(remove);

  it("every package holds its code, maps with their sources, a README and a license", () => {
    for (const folder of folders) {
      for (const file of ["README.md", "LICENSE", "dist/index.js", "dist/index.d.ts"]) {
        expect(existsSync(join(folder, file)), `${folder}/${file}`).toBe(true);
      }
      const { keywords, repository } = manifest(folder);
      expect(keywords).toContain("sluice");
      expect(repository?.url).toBe(manifest(ROOT).repository!.url);
      expect(manifest(join(ROOT, repository!.directory))).toMatchObject({ repository });
      expect(missingSources(folder)).toEqual([]);
    }
  });

  it("a program of twelve lines runs where the packages are installed", async () => {
    writeFileSync(join(app, "program.js"), PROGRAM);
    expect(PROGRAM.split("\n").length).toBeLessThanOrEqual(12);
    expect(await run(join(app, "program.js"))).toMatch(/^\S+ { text: 'hello' }\n\S+ { text: 'world' }\n$/);
  });

  it("npx sluice serves, and a bundle of the client for browsers works with it", async () => {
    await serving(app, async (url) => {
      const outfile = join(app, "bundle.js");
      const define = { URL_OF_THE_SERVER: JSON.stringify(url) };
      const stdin = { contents: BUNDLED, resolveDir: app };
      await build({ stdin, define, outfile, bundle: true, format: "esm", platform: "browser", minify: true });
      expect(await run(outfile)).toBe("{ works: true }\n");
    });
  }, 600_000);

  it("every entry and all declarations are right for the oldest and the newest TypeScript", async () => {
    const { "the oldest": oldest, ...others } = await typeCheck(app, PROGRAM);
    expect(oldest).toMatch(/^checked all with 5\.4\.\d+\n$/);
    const versions = process.env.SLUICE_DEEP === "1" ? ["5.4", "5.9", "6.0", "7.0"] : ["7.0"];
    expect(others).toEqual(Object.fromEntries(versions.map((version) => [version, ""])));
  }, 1_800_000);

  it("the image is built by its own steps from the files it copies, and its content starts", () => {
    const image = buildImage(base, clone);
    for (const sources of ["packages/server/src", "packages/protocol/src", "test", "tsconfig.json"]) {
      expect(existsSync(join(image, sources)), sources).toBe(false);
    }
    const command = [join(image, "packages/server/bin/sluice.js"), "config", "check", "--memory"];
    const surroundings = { cwd: image, env: cleanEnv(), encoding: "utf8" } as const;
    const { status, stdout, stderr } = spawnSync(process.execPath, command, surroundings);
    expect({ status, said: stdout + stderr }).toMatchObject({ status: 0, said: expect.stringContaining("ok") });
  }, 600_000);
});
