/**
 * `sluice serve` on unusable directories, ports and Redis: it gives the reason, and exits in less than half the time that it took to
 * find the reason, and not by a signal.
 */
import { once } from "node:events";
import { cpSync, rmSync, truncateSync } from "node:fs";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { join } from "node:path";
import { createServer, type RunningServer } from "@sluice/server";
import { describe, expect, it, onTestFinished } from "vitest";
import { temporaryDir } from "../support/disk.ts";
import { startSingleRedis } from "../support/redis.ts";
import { dirForTest, serveInProcess, start } from "../support/sluice-process.ts";
import { type SmallDisk, smallDisk } from "../support/small-disk.ts";

const SEGMENT_BYTES = 65_536;

/** A server of this process on a directory, with a stream whose messages are in the journal and not in the store yet. */
async function filledServer(data: string, messages: number): Promise<RunningServer> {
  const disk = { segmentBytes: SEGMENT_BYTES, applyAfterMs: 1e9 };
  const server = await createServer({ port: 0, data, log: false, internal: { disk } });
  const url = `${server.url}/v1/stream/s`;
  const headers = { "Content-Type": "text/plain" };
  await fetch(url, { method: "PUT", headers });
  for (let i = 0; i < messages; i++) {
    const { status } = await fetch(url, { method: "POST", headers, body: textOf(i) });
    expect(status).toBe(204);
  }
  return server;
}

const textOf = (i: number): string => `message ${i} `.padEnd(2_000, ".");

async function textIn(url: string): Promise<string> {
  return (await fetch(`${url}/v1/stream/s?offset=-1`)).text();
}

/** A timer or a connection that stays open would keep the process alive after its message. */
async function expectRefusal(args: readonly string[], why: RegExp): Promise<void> {
  const startedAt = performance.now();
  let toldAt = Number.POSITIVE_INFINITY;
  const { child, ended, said } = start(["serve", "--port", "0", ...args]);
  child.stderr!.on("data", () => {
    if (/^sluice: the server cannot start: /m.test(said.stderr)) toldAt = Math.min(toldAt, performance.now());
  });
  const { code, signal, stderr } = await ended;
  const endedAt = performance.now();
  expect(signal, stderr).toBe(null);
  expect(stderr).toMatch(why);
  expect(code).toBe(1);
  expect(endedAt - toldAt).toBeLessThan((toldAt - startedAt) / 2);
}

describe("a server is not started", () => {
  it("on a truncated store", async () => {
    const data = join(dirForTest(), "data");
    await (await filledServer(data, 3)).close();
    // The first two pages say where the others are, and the others are gone.
    truncateSync(join(data, "store.mdb"), 2 * 16_384 + 100);
    await expectRefusal(["--data", data], /The store is damaged: .*store\.mdb at byte \d+ \(page \d+\)/);
  });

  it("on a port that is taken, although the threads of its store run already", async () => {
    const taken = createTcpServer().listen(0, "127.0.0.1");
    onTestFinished(() => void taken.close());
    await once(taken, "listening");
    const { port } = taken.address() as AddressInfo;
    const data = join(dirForTest(), "data");
    await expectRefusal(["--port", String(port), "--data", data], /port \d+ of 127\.0\.0\.1 is in use/);
  });

  it("on a Redis that evicts data, or whose user lacks a right", async () => {
    const { server, close } = await startSingleRedis();
    onTestFinished(close);
    const lame = ["on", ">secret", "~*", "&*", "+@all", "-xtrim"];
    await server.admin((redis) => redis.call("ACL", "SETUSER", "lame", ...lame));
    const { hostname, port } = new URL(server.url);
    const lameUrl = `redis://lame:secret@${hostname}:${port}`;
    await expectRefusal(["--redis", lameUrl], /the Redis user lacks a permission/);
    await server.admin((redis) => redis.config("SET", "maxmemory", "100mb"));
    await server.admin((redis) => redis.config("SET", "maxmemory-policy", "allkeys-lru"));
    await expectRefusal(["--redis", server.url], /Sluice needs noeviction/);
  });

  it("where no directory can be made", async () => {
    await expectRefusal(["--data", "/proc/sluice"], /\/proc\/sluice cannot be written/);
  });
});

/** A small disk with the data of a server that crashed: what a running server has in its files. */
async function crashedOnSmallDisk(messages: number): Promise<SmallDisk | undefined> {
  const disk = smallDisk(4);
  if (disk === undefined) return undefined;
  onTestFinished(() => disk.remove());
  const { dir, remove } = temporaryDir();
  const server = await filledServer(dir, messages);
  cpSync(dir, join(disk.dir, "data"), { recursive: true, filter: (path) => !path.endsWith(".sock") });
  await server.close();
  remove();
  return disk;
}

describe("a restart on a full disk", () => {
  it.each([
    ["with little to do", 1, 65_536, "kept"],
    ["with much to bring into the store", 120, 65_536, "kept"],
    ["with no file that the journal could use again", 20, 131_072, "kept"],
    ["without the file of LMDB's locks, as after a restore,", 20, 65_536, "none"],
  ])("%s continues to read or reports the full disk, and has every message later", async (_, n, segment, locks) => {
    const disk = await crashedOnSmallDisk(n);
    // Without the right to mount, the test cannot make a full disk.
    if (disk === undefined) return;
    const data = join(disk.dir, "data");
    if (locks === "none") rmSync(join(data, "store.mdb-lock"));
    const ballast = disk.fill();
    const args = ["--data", data, "--set", `internal.disk.segmentBytes=${segment}`];
    const started = await serveInProcess(args).catch((fault: Error) => fault);
    if (started instanceof Error) {
      expect(started.message).toMatch(/^the server ended with 1: /);
      expect(started.message).toMatch(/the server cannot start: .*full/);
    } else {
      expect(await textIn(started.url)).toContain(textOf(n - 1));
      started.child.kill("SIGKILL");
      await started.ended;
    }
    rmSync(ballast);
    const server = await createServer({ port: 0, data, log: false, internal: { disk: { segmentBytes: segment } } });
    onTestFinished(() => server.close());
    expect(await textIn(server.url)).toBe(Array.from({ length: n }, (_, i) => textOf(i)).join(""));
  });
});
