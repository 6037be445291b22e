/**
 * Type-checks a stranger's program against the installed packages, under Node's resolution and a bundler's. `npm test` does it
 * with the newest TypeScript, and under Node's resolution with the oldest, which is slow. `SLUICE_DEEP=1` does both with the
 * oldest too, and adds the lines between, which it installs.
 *
 * Invariants: `skipLibCheck` is off, so an error in a declaration of a package is an error of the program.
 */
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { ROOT } from "../support/link-installed.ts";
import { npmInstall } from "./npm-install.ts";

const NEWEST = join(ROOT, "node_modules/typescript/bin/tsc");
const OLDEST = join(ROOT, "test/typescript-5/node_modules/typescript/bin/tsc");
const OLDEST_FOR_OURS = join(ROOT, "test/typescript-5/check.mjs");
const BETWEEN = ["~5.9.0", "^6.0.0"];

const EVERY_ENTRY = `import { Sluice } from "@sluice/client";
import { PubSub as RemotePubSub } from "@sluice/client/pubsub";
import { useStream } from "@sluice/client/react";
import { createResumableStreamContext } from "@sluice/client/resumable-stream";
import { errors } from "@sluice/protocol";
import type { NewSubscription } from "@sluice/protocol/pull";
import { ConfigError, createServer, type RunningServer, type ServerOptions } from "@sluice/server";
import { main } from "@sluice/server/cli";
import { PubSub } from "@sluice/server/pubsub";
import { createServer as same } from "sluice";

const options: ServerOptions = { port: 0, stream: { bodyBytes: 1024 } };
const starts: (options: ServerOptions) => Promise<RunningServer> = same;
// @ts-expect-error The options are typed.
const wrong: ServerOptions = { port: "a port" };
export type { NewSubscription };
export const clients = [Sluice, RemotePubSub, useStream, createResumableStreamContext, errors];
export const servers = [ConfigError, createServer, main, PubSub, options, starts, wrong];
`;

/** What each compiler says of each project, by its version. No text: no error. */
export async function typeCheck(app: string, program: string): Promise<Record<string, string>> {
  const projects = (["nodenext", "bundler"] as const).map((resolution) => project(app, resolution, program));
  const compilers = [NEWEST];
  if (process.env.SLUICE_DEEP === "1") compilers.push(OLDEST, ...(await installLines(app)));
  const said: Record<string, string> = {};
  for (const tsc of compilers) {
    const outputs: string[] = [];
    for (const folder of projects) outputs.push(await outputOf(tsc, "-p", folder, ...oneThread(tsc)));
    said[versionOf(tsc)] = outputs.join("");
  }
  said["the oldest"] = await outputOf(OLDEST_FOR_OURS, projects[0]!);
  return said;
}

function project(app: string, moduleResolution: "nodenext" | "bundler", program: string): string {
  const folder = join(app, moduleResolution);
  mkdirSync(folder);
  const ofKind = moduleResolution === "bundler" ? { module: "esnext" } : { module: "nodenext", lib: ["es2023"] };
  const compilerOptions = {
    ...ofKind,
    moduleResolution,
    target: "es2022",
    strict: true,
    skipLibCheck: false,
    noEmit: true,
    types: ["node"],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  writeFileSync(join(folder, "program.ts"), program);
  writeFileSync(join(folder, "every-entry.ts"), EVERY_ENTRY);
  return folder;
}

async function installLines(app: string): Promise<string[]> {
  const lines = BETWEEN.map((range, index) => ({ name: `typescript-line-${index}`, range }));
  await npmInstall(
    app,
    lines.map(({ name, range }) => `${name}@npm:typescript@${range}`),
  );
  return lines.map(({ name }) => join(app, "node_modules", name, "bin/tsc"));
}

/** Several threads of the newest check the same types again, and share the processors with other tests. */
const oneThread = (tsc: string) => (tsc === NEWEST ? ["--singleThreaded"] : []);

function versionOf(tsc: string): string {
  const { version } = JSON.parse(readFileSync(join(tsc, "../../package.json"), "utf8"));
  return version.replace(/\.\d+$/, "");
}

async function outputOf(...command: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, command).catch((fault) => fault);
  return stdout;
}
