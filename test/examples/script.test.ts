import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { PageServer } from "../../examples/web/page-server.ts";
import { eventually } from "../support/eventually.ts";
import { dirForTest } from "../support/sluice-process.ts";

const SCRIPT = fileURLToPath(new URL("../../scripts/example.mjs", import.meta.url));

function run(...args: string[]) {
  // A process group of its own, as a terminal gives to each command.
  const child = spawn(process.execPath, [SCRIPT, ...args], { stdio: "pipe", detached: true });
  const said = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk) => {
    said.stdout += chunk;
  });
  child.stderr.on("data", (chunk) => {
    said.stderr += chunk;
  });
  const ended = once(child, "close").then(([code]) => code as number | null);
  onTestFinished(() => {
    if (isRunning(child)) signalGroup(child, "SIGKILL");
  });
  return { child, said, ended };
}

function isRunning({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null;
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  process.kill(-child.pid!, signal);
}

test("the script prints one line with the address, serves the page, and Ctrl-C ends it in the middle of an answer", async () => {
  const { child, said, ended } = run("ai-tokens", "--port", "0", "--data", dirForTest());
  await eventually(() => expect(said.stdout, said.stderr).toContain("\n"), 25_000);
  const [, url] = /^ai-tokens: open (http:\/\/127\.0\.0\.1:\d+\/)\n$/.exec(said.stdout)!;
  const page = await fetch(url!);
  expect(await page.text()).toContain("<h1");
  expect((await fetch(`${url}ask`, { method: "POST" })).status).toBe(201);
  signalGroup(child, "SIGINT");
  expect(await ended).toBe(0);
  expect(said.stdout).toBe(`ai-tokens: open ${url}\n`);
});

test("a browser that opens the page too early is told to ask again", async () => {
  const web = await PageServer.listen(0);
  onTestFinished(() => web.close());
  const early = await fetch(web.url);
  expect([early.status, early.headers.get("refresh")]).toEqual([503, "1"]);
  await web.show(new URL("../../examples/notifications/page/", import.meta.url), "http://127.0.0.1:1");
  expect((await fetch(web.url)).status).toBe(200);
  expect((await fetch(`${web.url}elsewhere`)).status).toBe(404);
});

test("another example is started the same way", async () => {
  const { child, said, ended } = run("notifications", "--port", "0", "--data", dirForTest());
  await eventually(() => expect(said.stdout, said.stderr).toContain("\n"), 25_000);
  const [, url] = /^notifications: open (http:\/\/127\.0\.0\.1:\d+\/)\n$/.exec(said.stdout)!;
  expect((await fetch(`${url}day`, { method: "POST" })).status).toBe(202);
  signalGroup(child, "SIGINT");
  expect(await ended).toBe(0);
});

test("an example that does not exist is refused, with the names of the existing ones", async () => {
  const { said, ended } = run("ai-toasters");
  expect(await ended).toBe(2);
  expect(said.stderr).toContain("no example called ai-toasters");
  expect(said.stderr).toContain("npm run example ai-tokens, npm run example chat");
});

test("a malformed port is refused", async () => {
  const { said, ended } = run("ai-tokens", "--port", "80a");
  expect(await ended).toBe(2);
  expect(said.stderr).toContain("--port: 80a is not a port");
});
