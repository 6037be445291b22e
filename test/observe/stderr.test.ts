/** The real process, and a reader of its standard error that reads promptly, not at all, or no longer. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, constants, mkdtempSync, openSync, readFileSync, readSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { eventually, within } from "../e2e/server.ts";
import { bundledBin } from "../support/server-bundle.ts";
import { cleanEnv } from "../support/sluice-process.ts";
import type { Line } from "./logged-server.ts";
import { Scrape } from "./prometheus-text.ts";

const command = () => [bundledBin(), "serve", "--port", "0", "--memory", "--drain-ms", "2000"];

interface Served {
  readonly child: ChildProcess;
  readonly url: URL;
  readonly ended: Promise<number | string | null>;
}

async function serve(command: string, args: readonly string[], stderr: "pipe" | number): Promise<Served> {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", stderr], env: cleanEnv() });
  onTestFinished(() => void child.kill("SIGKILL"));
  const ended = new Promise<number | string | null>((resolve) => {
    child.on("exit", (code, signal) => resolve(signal ?? code));
  });
  const ready = new Promise<URL>((resolve) => {
    let text = "";
    child.stdout!.on("data", (chunk) => {
      text += chunk;
      const match = /^sluice ready (\S+)$/m.exec(text);
      if (match) resolve(new URL(match[1]!));
    });
  });
  return { child, url: await within(20_000, "the ready line", ready), ended };
}

/** Sends this many requests, some at a time, and waits for every answer. */
async function ask({ hostname, port }: URL, count: number): Promise<void> {
  const socket = connect(Number(port), hostname);
  let answers = 0;
  const done = new Promise<void>((resolve, reject) => {
    socket.on("error", reject);
    socket.on("data", (chunk) => {
      answers += chunk.toString("latin1").split("HTTP/1.1 404").length - 1;
      if (answers >= count) resolve();
      else if (answers % 100 === 0) send();
    });
  });
  const request = `GET /nowhere HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: ${"i".repeat(60)}\r\n\r\n`;
  const send = () => socket.write(request.repeat(100));
  send();
  await within(30_000, "the answers", done);
  socket.destroy();
}

async function scrape(url: URL): Promise<Scrape> {
  return new Scrape(await (await fetch(new URL("/metrics", url))).text());
}

const dropped = async (url: URL) => (await scrape(url)).value("sluice_log_lines_dropped_total");

function linesOf(text: string): Line[] {
  return (
    text
      .trimEnd()
      .split("\n")
      // The command itself writes plain text to its operator.
      .filter((line) => !line.startsWith("sluice: "))
      .map((line) => JSON.parse(line) as Line)
  );
}

/** More lines than a pipe or a socket holds. */
const MANY = 4_000;
/** More lines than a pipe or a socket and the buffer of the log before it hold. */
const TOO_MANY = 10_000;

describe("standard error", () => {
  it("that is read gets every line, as JSON, to the last one before the exit", async () => {
    const { child, url, ended } = await serve(process.execPath, command(), "pipe");
    let text = "";
    child.stderr!.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    const closed = new Promise((resolve) => child.stderr!.on("close", resolve));
    await ask(url, 300);
    child.kill("SIGTERM");
    expect(await ended).toBe(0);
    await closed;
    const lines = linesOf(text);
    const requests = lines.filter(({ msg }) => msg === "request");
    expect(requests).toHaveLength(300);
    const plain = { level: "info", id: "i".repeat(60), method: "GET", route: expect.any(String), status: 404 };
    expect(requests[0]).toMatchObject({ ...plain, time: expect.any(Number), ms: expect.any(Number) });
    expect(lines.map(({ msg }) => msg).slice(-2)).toEqual(["draining", "stopped"]);
    expect(lines[0]).toMatchObject({ level: "info", msg: "listening", time: expect.any(Number) });
  });

  it("that is a file gets every line too", async () => {
    const dir = mkdtempSync(join(tmpdir(), "sluice-stderr-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    const file = openSync(join(dir, "log"), "a");
    const { child, url, ended } = await serve(process.execPath, command(), file);
    closeSync(file);
    await ask(url, 300);
    child.kill("SIGTERM");
    expect(await ended).toBe(0);
    const lines = linesOf(readFileSync(join(dir, "log"), "utf8"));
    expect(lines.filter(({ msg }) => msg === "request")).toHaveLength(300);
    expect(lines.at(-1)).toMatchObject({ msg: "stopped" });
  });

  it("that is not read delays no request: lines are dropped and counted, and a later line reports how many", async () => {
    const { child, url, ended } = await serve(process.execPath, command(), "pipe");
    await ask(url, TOO_MANY);
    let scrapes = 0;
    await eventually(async () => {
      scrapes++;
      expect(await dropped(url)).toBeGreaterThan(1_000);
    });
    let text = "";
    child.stderr!.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    await eventually(() => expect(text).toContain("log lines were dropped"));
    child.kill("SIGTERM");
    expect(await ended).toBe(0);
    await eventually(() => expect(text).toContain('"stopped"'));
    const lines = linesOf(text);
    const told = lines.filter(({ msg }) => msg === "log lines were dropped");
    const missing = told.reduce((total, line) => total + (line.dropped as number), 0);
    const requests = lines.filter(({ msg }) => msg === "request").length;
    expect(requests + missing).toBe(TOO_MANY + scrapes);
  });

  it("that is never read does not keep the process from exiting, as a pipe or a socket", async () => {
    const dir = mkdtempSync(join(tmpdir(), "sluice-stderr-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    const fifo = join(dir, "fifo");
    await new Promise((resolve) => spawn("mkfifo", [fifo]).on("exit", resolve));
    const reader = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
    onTestFinished(() => closeSync(reader));
    const writer = openSync(fifo, "w");
    const viaPipe = await serve(process.execPath, command(), writer);
    closeSync(writer);
    const viaSocket = await serve(process.execPath, command(), "pipe");
    for (const { child, url, ended } of [viaPipe, viaSocket]) {
      await ask(url, MANY);
      child.kill("SIGTERM");
      expect(await within(10_000, "the end", ended)).toBe(0);
    }
    const some = Buffer.alloc(1_000);
    expect(readSync(reader, some)).toBe(1_000);
    expect(some.toString("latin1")).toContain('{"level":"info"');
  });

  it("that has been closed by its reader loses lines, and the server continues", async () => {
    const { child, url, ended } = await serve(process.execPath, command(), "pipe");
    child.stderr!.destroy();
    await ask(url, 1_000);
    await eventually(async () => expect(await dropped(url)).toBeGreaterThan(0));
    await ask(url, 1_000);
    child.kill("SIGTERM");
    expect(await ended).toBe(0);
  });

  it("gets the final log line of a process that fails", async () => {
    const { child, ended } = await serve(process.execPath, ["--import", FAILS_ON_SIGUSR2, ...command()], "pipe");
    let text = "";
    child.stderr!.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    child.kill("SIGUSR2");
    expect(await ended).toBe("SIGKILL");
    await eventually(() => expect(text).toContain("on purpose"));
    const last = linesOf(text).at(-1);
    expect(last).toMatchObject({
      level: "error",
      msg: "uncaughtException",
      err: { type: "Error", message: "on purpose" },
    });
  });

  it.each([
    ["warn", ["uncaughtException"]],
    ["fatal", []],
  ])("gets no line below the level %s", async (level, expected) => {
    const args = ["--import", FAILS_ON_SIGUSR2, ...command(), "--log-level", level];
    const { child, url, ended } = await serve(process.execPath, args, "pipe");
    let text = "";
    child.stderr!.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    const closed = new Promise((resolve) => child.stderr!.on("close", resolve));
    await ask(url, 100);
    child.kill("SIGUSR2");
    await ended;
    await closed;
    const lines = text.split("\n").filter((line) => line.startsWith("{"));
    expect(lines.map((line) => (JSON.parse(line) as Line).msg)).toEqual(expected);
  });
});

const FAILS_ON_SIGUSR2 = `data:text/javascript,${encodeURIComponent(
  'process.on("SIGUSR2", () => { throw new Error("on purpose"); })',
)}`;
