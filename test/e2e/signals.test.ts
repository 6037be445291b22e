/** The real process under signals: it drains and exits 0, ends at once on a second signal, and keeps what it acknowledged. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";

const bin = fileURLToPath(new URL("../../packages/server/bin/sluice.js", import.meta.url));
const data = mkdtempSync(join(tmpdir(), "sluice-signals-"));
const children: ChildProcess[] = [];

afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  rmSync(data, { recursive: true, force: true });
});

async function start(): Promise<{ child: ChildProcess; url: string; ended: Promise<number | string | null> }> {
  const child = spawn(process.execPath, [bin, "serve", "--port", "0", "--data", data], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, SLUICE_LOG_LEVEL: "warn" },
  });
  children.push(child);
  const ended = new Promise<number | string | null>((resolve) => {
    child.on("exit", (code, signal) => resolve(signal ?? code));
  });
  const url = await new Promise<string>((resolve, reject) => {
    let text = "";
    child.stdout!.on("data", (chunk) => {
      text += chunk;
      const ready = /^sluice ready (\S+)$/m.exec(text);
      if (ready) resolve(ready[1]!);
    });
    ended.then((how) => reject(new Error(`the server ended with ${how}`)));
  });
  return { child, url: `${url}/v1/stream/a`, ended };
}

const json = { "Content-Type": "application/json" };

test("SIGTERM ends a live reader and the process with 0, and the next life has everything", async () => {
  const first = await start();
  await fetch(first.url, { method: "PUT", headers: json, body: "[1,2,3]" });
  const live = await fetch(`${first.url}?offset=-1&live=sse`);
  first.child.kill("SIGTERM");
  expect(await first.ended).toBe(0);
  expect(await live.text()).toContain("data:[1,2,3]");

  const second = await start();
  expect(await (await fetch(second.url)).json()).toEqual([1, 2, 3]);
  second.child.kill("SIGINT");
  expect(await second.ended).toBe(0);
});

test("a second signal ends it at once, in the middle of writing, and what was acknowledged is there afterwards", async () => {
  const first = await start();
  await fetch(first.url, { method: "PUT", headers: json });
  let acknowledged = 0;
  let isUp = true;
  const write = async () => {
    while (isUp) {
      const sent = await fetch(first.url, { method: "POST", headers: json, body: `${Date.now()}` }).catch(
        () => undefined,
      );
      if (sent?.status === 204) acknowledged++;
      else isUp = false;
    }
  };
  const writers = Array.from({ length: 16 }, write);
  // A slow upload keeps the drain from ending by itself.
  const upload = new ReadableStream({ start: (body) => body.enqueue(new TextEncoder().encode("[")) });
  const stuck = fetch(first.url, { method: "POST", headers: json, body: upload, duplex: "half" } as RequestInit);
  stuck.catch(() => undefined);
  while (acknowledged < 200) await new Promise((resolve) => setTimeout(resolve, 5));
  first.child.kill("SIGTERM");
  await new Promise((resolve) => setTimeout(resolve, 50));
  first.child.kill("SIGTERM");
  expect(await first.ended).toBe("SIGKILL");
  await Promise.all(writers);

  const second = await start();
  const messages = (await (await fetch(second.url)).json()) as number[];
  expect(messages.length).toBeGreaterThanOrEqual(acknowledged);
});
