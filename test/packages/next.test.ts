/**
 * The blocks of `docs/embedding.md` about Next.js. With `SLUICE_DEEP=1` they run in an application of the current Next.js, which
 * is installed for it; else they are only parsed.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer as createTcpServer } from "node:net";
import { dirname, join } from "node:path";
import { Sluice } from "@sluice/client";
import { createServer } from "@sluice/server";
import { transform } from "esbuild";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import { blocksOf } from "../docs/blocks.ts";
import { temporaryDir } from "../support/disk.ts";
import { eventually } from "../support/eventually.ts";
import { link, ROOT } from "../support/link-installed.ts";
import { npmInstall, strangersEnv } from "./npm-install.ts";

const PAGES = {
  "app/layout.js": "export default function Layout({ children }) { return <html><body>{children}</body></html>; }",
  "app/page.js": "export default function Page() { return <h1>a page of Next</h1>; }",
  // Matches every address, so that Next would claim Sluice's as well.
  "app/[...any]/page.js": "export default function Page() { return <h1>any page</h1>; }",
};

/** The blocks by the file that their first line names. */
const blocks = new Map(
  blocksOf("docs/embedding.md").flatMap(({ text }) => {
    const [, file] = /^\/\/ (\S+\.m?js)\n/.exec(text) ?? [];
    return file === undefined ? [] : [[file, text] as const];
  }),
);

function write(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
}

async function freePort(): Promise<number> {
  const probe = createTcpServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  return port;
}

/** Runs a command of the application until the test ends, and returns its address once a page of Next is there. */
async function running(app: string, ...args: readonly string[]): Promise<string> {
  const port = await freePort();
  const env = { ...strangersEnv(), PORT: String(port), NEXT_TELEMETRY_DISABLED: "1" };
  const child = spawn(process.execPath, args, { cwd: app, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  let said = "";
  for (const output of [child.stdout, child.stderr]) output.on("data", (chunk) => (said += chunk));
  const ended = once(child, "exit");
  onTestFinished(async () => {
    if (child.exitCode === null) process.kill(-child.pid!, "SIGTERM");
    await ended;
  });
  const url = `http://localhost:${port}`;
  await eventually(async () => {
    const page = await fetch(url).then((answer) => answer.text(), String);
    expect(page, said).toContain("a page of Next");
  }, 120_000);
  return url;
}

async function firstMessage(url: string): Promise<string> {
  const socket = new WebSocket(url.replace("http", "ws"));
  onTestFinished(() => socket.terminate());
  return new Promise((resolve, reject) => {
    socket.on("message", (data) => resolve(JSON.parse(String(data)).type));
    socket.on("error", reject);
  });
}

/** A page of Next, and a stream with a live tail and a WebSocket below /sluice. */
async function bothWorkAt(url: string): Promise<void> {
  expect(await (await fetch(`${url}/some/where`)).text()).toContain("any page");
  const client = new Sluice({ url: `${url}/sluice` });
  onTestFinished(() => client.close());
  const stream = client.stream<number>("a/b");
  await stream.append(1);
  const live: number[] = [];
  for await (const item of stream.read({ live: true })) {
    if (item.type !== "message") continue;
    live.push(item.value);
    if (live.length === 2) break;
    void stream.append(2);
  }
  expect(live).toEqual([1, 2]);
  const session = await client.session();
  expect(await firstMessage(`${url}/sluice/v1/default/live/${session.id}`)).toBe("hello");
  // Next's own WebSocket, by which a page learns of a changed file.
  expect(await firstMessage(`${url}/_next/hmr`)).not.toBe("hello");
}

function inAnApplication(): void {
  const { dir: app, remove } = temporaryDir();

  beforeAll(async () => {
    write(app, { "package.json": '{ "private": true, "type": "module" }', ...PAGES });
    await npmInstall(app, ["next", "react", "react-dom"]);
    for (const name of readdirSync(join(ROOT, "node_modules/@sluice"))) {
      link(join(ROOT, "node_modules/@sluice", name), join(app, "node_modules/@sluice", name));
    }
    return remove;
  }, 600_000);

  it("the custom server of the manual serves pages, streams and the WebSockets of both", async () => {
    write(app, {
      "server.mjs": blocks.get("server.mjs")!,
      "app/orders/route.js": blocks.get("app/orders/route.js")!,
    });
    const url = await running(app, "server.mjs");
    await bothWorkAt(url);
    const answer = await fetch(`${url}/orders`, { method: "POST", body: '{"item":"tea"}' });
    expect(await answer.json()).toEqual({ offset: expect.any(String) });
    expect(await (await fetch(`${url}/sluice/v1/stream/orders?offset=-1`)).json()).toEqual([{ item: "tea" }]);
  }, 300_000);

  it("the rewrite of the manual passes requests, event streams and WebSockets to a server of its own", async () => {
    const server = await createServer({ port: 0, memory: true, log: false });
    onTestFinished(() => server.close());
    write(app, { "next.config.mjs": blocks.get("next.config.mjs")!.replace("http://127.0.0.1:4437", server.url) });
    await bothWorkAt(await running(app, "node_modules/next/dist/bin/next", "dev"));
  }, 300_000);
}

it("the manual has the files of an application, and each is JavaScript", async () => {
  expect([...blocks.keys()].sort()).toEqual(["app/orders/route.js", "next.config.mjs", "server.mjs"]);
  for (const text of blocks.values()) await transform(text);
});

if (process.env.SLUICE_DEEP === "1") describe("in an application of Next.js", inAnApplication);
