/**
 * The packages as a stranger gets them: packed from a copy of the repository that was never built, unpacked into an empty folder,
 * then run, imported, type-checked and bundled there. The installed packages stand in for those that a registry would give.
 */
import { execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { expect, test } from "vitest";
import { link, linkInstalled, nameOf, ROOT } from "../support/link-installed.ts";
import { cleanEnv, dirForTest } from "../support/sluice-process.ts";

const SOURCES = [
  "packages",
  "scripts",
  "package.json",
  "package-lock.json",
  "LICENSE",
  "tsconfig.json",
  "tsconfig.base.json",
];
const MADE_BY_A_BUILD = /\/(node_modules|dist|LICENSE)$|\.tsbuildinfo$/;

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

const EVERY_ENTRY = `import { Sluice } from "@sluice/client";
import { useStream } from "@sluice/client/react";
import { createResumableStreamContext } from "@sluice/client/resumable-stream";
import { errors } from "@sluice/protocol";
import { ConfigError, createServer, type RunningServer, type ServerOptions } from "@sluice/server";
import { PubSub } from "@sluice/server/pubsub";
import { createServer as same } from "sluice";

const options: ServerOptions = { port: 0, stream: { bodyBytes: 1024 } };
const starts: (options: ServerOptions) => Promise<RunningServer> = same;
// @ts-expect-error The options are typed.
const wrong: ServerOptions = { port: "a port" };
export const all = [Sluice, useStream, createResumableStreamContext, errors, ConfigError, createServer, PubSub, options, starts, wrong];
`;

const BUNDLED = `import { Sluice } from "@sluice/client";
const stream = new Sluice({ url: URL_OF_THE_SERVER }).stream("from/a/bundle");
await stream.append({ works: true });
for await (const item of stream.read()) if (item.type === "message") console.log(item.value);
`;

/** Packs a copy that has neither a build nor a license in its packages, as a fresh clone. */
function packs(base: string): string[] {
  const clone = join(base, "clone");
  const isSource = (path: string) =>
    !MADE_BY_A_BUILD.test(path.slice(ROOT.length - 1)) || path === join(ROOT, "LICENSE");
  for (const name of SOURCES) cpSync(join(ROOT, name), join(clone, name), { recursive: true, filter: isSource });
  linkInstalled(clone);
  const packages = readdirSync(join(clone, "packages"));
  const args = packages.flatMap((name) => ["--workspace", `packages/${name}`]);
  execFileSync("npm", ["pack", "--silent", "--pack-destination", base, ...args], { cwd: clone, encoding: "utf8" });
  return readdirSync(base)
    .filter((name) => name.endsWith(".tgz"))
    .map((name) => join(base, name));
}

/** Unpacks the packages and copies the dependencies that they declare, and no others. */
function install(tarballs: readonly string[], app: string): string[] {
  const modules = join(app, "node_modules");
  const folders = tarballs.map((tarball) => {
    execFileSync("tar", ["-xzf", tarball, "-C", app]);
    const folder = join(modules, nameOf(join(app, "package")));
    mkdirSync(dirname(folder), { recursive: true });
    renameSync(join(app, "package"), folder);
    return folder;
  });
  for (const folder of folders) {
    bring(folder, modules);
    for (const [name, file] of Object.entries(manifest(folder).bin ?? {})) {
      if (!existsSync(join(modules, ".bin", name))) link(join(folder, file), join(modules, ".bin", name));
    }
  }
  return folders;
}

/** Copies what a package depends on, and what that depends on. */
function bring(folder: string, modules: string): void {
  const { dependencies, optionalDependencies } = manifest(folder);
  for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
    const to = join(modules, name);
    // A package for another platform is optional and not installed.
    if (existsSync(to) || existsSync(join(folder, "node_modules", name)) || !existsSync(installed(name))) continue;
    cpSync(installed(name), to, { recursive: true });
    bring(to, modules);
  }
}

interface Manifest {
  readonly folder: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly bin?: Readonly<Record<string, string>>;
  readonly keywords?: readonly string[];
  readonly repository?: { readonly url: string; readonly directory: string };
}

function manifest(folder: string): Manifest {
  return { folder, ...JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) };
}

function installed(name: string): string {
  const nested = join(ROOT, "packages/server/node_modules", name);
  return existsSync(nested) ? nested : join(ROOT, "node_modules", name);
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

function project(app: string, moduleResolution: "nodenext" | "bundler"): string {
  const folder = join(app, moduleResolution);
  mkdirSync(folder);
  const ofKind = moduleResolution === "bundler" ? { module: "esnext" } : { module: "nodenext", lib: ["es2023"] };
  const compilerOptions = {
    ...ofKind,
    moduleResolution,
    target: "es2022",
    strict: true,
    noEmit: true,
    types: ["node"],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  writeFileSync(join(folder, "program.ts"), PROGRAM);
  writeFileSync(join(folder, "every-entry.ts"), EVERY_ENTRY);
  return folder;
}

/** What a compiler says, every declaration of every package included. */
async function said(...command: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, command).catch((fault) => fault);
  return stdout;
}

/** What the user types in an empty folder. The command and its server end with their process group. */
async function serving(app: string, use: (url: string) => Promise<void>): Promise<void> {
  const args = ["sluice", "serve", "--port", "0"];
  const child = spawn("npx", args, { cwd: app, env: cleanEnv(), stdio: ["ignore", "pipe", "ignore"], detached: true });
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

test("the packages are packed from a fresh clone, and work where they are installed", {
  timeout: 600_000,
}, async () => {
  const base = dirForTest();
  const app = join(base, "app");
  mkdirSync(app);
  const folders = install(packs(base), app);

  const { repository } = manifest(ROOT);
  expect(folders.map(nameOf).sort()).toEqual(["@sluice/client", "@sluice/protocol", "@sluice/server", "sluice"]);
  for (const folder of folders) {
    for (const file of ["README.md", "LICENSE", "dist/index.js", "dist/index.d.ts"]) {
      expect(existsSync(join(folder, file)), `${folder}/${file}`).toBe(true);
    }
    expect(manifest(folder).keywords).toContain("sluice");
    expect(manifest(folder).repository?.url).toBe(repository!.url);
    expect(missingSources(folder)).toEqual([]);
  }

  writeFileSync(join(app, "package.json"), '{ "type": "module" }');
  writeFileSync(join(app, "program.js"), PROGRAM);
  expect(await run(join(app, "program.js"))).toMatch(/^\S+ { text: 'hello' }\n\S+ { text: 'world' }\n$/);

  await serving(app, async (url) => {
    const outfile = join(app, "bundle.js");
    const define = { URL_OF_THE_SERVER: JSON.stringify(url) };
    const stdin = { contents: BUNDLED, resolveDir: app };
    await build({ stdin, define, outfile, bundle: true, format: "esm", platform: "browser", minify: true });
    expect(await run(outfile)).toBe("{ works: true }\n");
  });

  cpSync(installed("@types/node"), join(app, "node_modules/@types/node"), { recursive: true });
  bring(installed("@types/node"), join(app, "node_modules"));
  const [nodenext, bundler] = [project(app, "nodenext"), project(app, "bundler")];
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  for (const folder of [nodenext, bundler]) expect(await said(tsc, "-p", folder)).toBe("");
  const check = join(ROOT, "test/typescript-5/check.mjs");
  expect(await said(check, nodenext, bundler)).toMatch(/^checked all with 5\.4\.\d+\n$/);
});
