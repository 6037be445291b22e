/**
 * A server whose limit of open files is far below the number of its clients. Connections beyond the limit are refused while the
 * others last; those that the server has keep writing, because the engine keeps the descriptors that it needs.
 */
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { Agent, request } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { dirForTest, serveInProcess } from "../support/sluice-process.ts";

const OPEN_FILES = 128;
const IDLE = 400;
const text = { "Content-Type": "text/plain" };
/** Most of a segment, so that every second append needs a new file. */
const body = "a".repeat(40_000);

it("idle connections beyond the limit of open files stop only further connections, and only while they last", async () => {
  const args = ["--data", join(dirForTest(), "data"), "--set", "internal.disk.segmentBytes=65536"];
  const { url, child, ended, said } = await serveInProcess(args, {}, undefined, OPEN_FILES);
  const stream = `${url}/v1/stream/s`;
  const kept = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => kept.destroy());
  expect(await statusOf(stream, "PUT", kept)).toBe(201);

  const { hostname, port } = new URL(url);
  const idle = Array.from({ length: IDLE }, () => connect(Number(port), hostname).on("error", () => {}));
  const hangUp = () => idle.forEach((socket) => void socket.destroy());
  onTestFinished(hangUp);
  const open = () => idle.filter(({ readyState }) => readyState === "open").length;
  await expect.poll(open).toBeLessThan(OPEN_FILES);

  // Webhooks and key sets could take the descriptors that connections leave; now there are none.
  leaveNoDescriptor(child.pid!);
  for (let i = 0; i < 10; i++) expect(await statusOf(stream, "POST", kept)).toBe(204);
  expect(await statusOf(stream, "POST")).toBe(503);

  hangUp();
  limitOpenFiles(child.pid!, OPEN_FILES);
  await expect.poll(() => statusOf(stream, "POST")).toBe(204);
  expect((await fetch(`${url}/ready`)).status).toBe(200);
  expect(said.stderr).toMatch(/"openFiles":128,"connections":\d+,"msg":"the limit of open files is low/);
  child.kill("SIGTERM");
  expect((await ended).code).toBe(0);
});

/** A connection that the server cut counts as refused. */
function statusOf(url: string, method: string, agent?: Agent): Promise<number> {
  return new Promise((resolve) => {
    const sent = request(url, { method, headers: text, agent: agent ?? false }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode!));
    });
    sent.on("error", () => resolve(503));
    sent.end(method === "POST" ? body : undefined);
  });
}

function limitOpenFiles(pid: number, most: number): void {
  execFileSync("prlimit", [`--pid=${pid}`, `--nofile=${most}:`]);
}

/** Lowers the limit to what the process has open. */
function leaveNoDescriptor(pid: number): void {
  const taken = new Set(readdirSync(`/proc/${pid}/fd`).map(Number));
  let first = 0;
  while (taken.has(first)) first++;
  limitOpenFiles(pid, first);
}
