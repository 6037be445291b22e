/** The real process under signals: it drains and exits 0, ends at once on a second signal a moment later, and keeps what it acknowledged. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { bundledBin } from "../support/server-bundle.ts";
import { cleanEnv } from "../support/sluice-process.ts";
import { RawConnection } from "./raw-http.ts";
import { eventually } from "./server.ts";

/** The command as it ships. One test starts it so; the others start the bundle, which takes half the time. */
const shipped = fileURLToPath(new URL("../../packages/server/bin/sluice.js", import.meta.url));
const data = mkdtempSync(join(tmpdir(), "sluice-signals-"));
const children: ChildProcess[] = [];

afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  rmSync(data, { recursive: true, force: true });
});

interface Started {
  readonly child: ChildProcess;
  readonly url: string;
  readonly ended: Promise<number | string | null>;
}

async function start(bin = bundledBin()): Promise<Started> {
  const child = spawn(process.execPath, [bin, "serve", "--port", "0", "--data", data], {
    stdio: ["ignore", "pipe", "ignore"],
    env: cleanEnv(),
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
  const first = await start(shipped);
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

test("from the signal on a kept connection learns that the server is not ready, while what is in flight is finished", async () => {
  const { child, url, ended } = await start();
  await fetch(url, { method: "PUT", headers: json });
  const port = Number(new URL(url).port);
  const [kept, other, writer] = await Promise.all([0, 1, 2].map(() => RawConnection.open(port)));
  for (const connection of [kept!, other!]) {
    connection.send("GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n");
    expect(await connection.answer()).toMatchObject({ status: 200 });
  }
  writer!.send(
    "POST /v1/stream/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n[1",
  );
  // The half of the upload is there when this has been answered.
  await fetch(`${new URL(url).origin}/health`);
  child.kill("SIGTERM");
  await eventually(async () => {
    await expect(fetch(`${new URL(url).origin}/health`)).rejects.toThrow();
  });
  kept!.send("GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n");
  expect(await kept!.answer()).toMatchObject({ status: 503 });
  await kept!.closed;
  writer!.send(",2");
  // Not JSON, and told so: the answer comes from the feature, not from the shutdown.
  expect(await writer!.answer("POST")).toMatchObject({ status: 400 });
  expect(await ended).toBe(0);
  await other!.closed;
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
  // A slow upload keeps the drain from ending by itself; the server has said that it waits for it.
  const stuck = await RawConnection.open(Number(new URL(first.url).port));
  stuck.send("POST /v1/stream/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
  stuck.send("Content-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  expect(String(await once(stuck.socket, "data"))).toMatch(/^HTTP\/1.1 100 /);
  while (acknowledged < 200) await new Promise((resolve) => setTimeout(resolve, 5));
  first.child.kill("SIGTERM");
  // Sooner, it would count as an echo of the first.
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  first.child.kill("SIGTERM");
  expect(await first.ended).toBe("SIGKILL");
  await Promise.all(writers);

  const second = await start();
  const messages = (await (await fetch(second.url)).json()) as number[];
  expect(messages.length).toBeGreaterThanOrEqual(acknowledged);
});
