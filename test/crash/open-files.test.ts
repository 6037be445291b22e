/** A server whose limit of open files is far below the number of its clients: appends wait for those clients, not for a restart. */
import { connect } from "node:net";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { dirForTest, serveInProcess } from "../support/sluice-process.ts";

const OPEN_FILES = 128;
const IDLE = 400;
const text = { "Content-Type": "text/plain" };

it("idle connections beyond the limit of open files stop appends only while they last", async () => {
  const args = ["--data", join(dirForTest(), "data"), "--set", "internal.disk.segmentBytes=65536"];
  const { url, child, ended, said } = await serveInProcess(args, {}, undefined, OPEN_FILES);
  const stream = `${url}/v1/stream/s`;
  expect((await fetch(stream, { method: "PUT", headers: { ...text, Connection: "close" } })).status).toBe(201);
  const { hostname, port } = new URL(url);
  const idle = Array.from({ length: IDLE }, () => connect(Number(port), hostname).on("error", () => {}));
  const hangUp = () => idle.forEach((socket) => void socket.destroy());
  onTestFinished(hangUp);
  const open = () => idle.filter(({ readyState }) => readyState === "open").length;
  await expect.poll(open).toBeLessThan(OPEN_FILES);

  // Each append needs most of a segment, so that the next one needs a new file.
  const body = "a".repeat(40_000);
  const append = async () => {
    const headers = { ...text, Connection: "close" };
    return (await fetch(stream, { method: "POST", headers, body }).catch(() => undefined))?.status ?? 503;
  };
  expect(await append()).toBe(503);
  hangUp();
  await expect.poll(append).toBe(204);
  for (let i = 0; i < 4; i++) expect(await append()).toBe(204);
  expect((await fetch(`${url}/ready`)).status).toBe(200);
  expect(said.stderr).toMatch(/"openFiles":128,"connections":\d+,"msg":"the limit of open files is low/);
  child.kill("SIGTERM");
  expect((await ended).code).toBe(0);
});
