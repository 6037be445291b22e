/** How the session commands end: errors, two readers of one session, a session that ends, a server that goes away. */
import { createServer, type RunningServer } from "@sluice/server";
import { beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../e2e/server.ts";
import { dirForTest, serveInProcess, sluice, start } from "../support/sluice-process.ts";
import { SESSION_REFUSALS } from "./session-rows.ts";

let server: RunningServer;

beforeAll(async () => {
  server = await createServer({ port: 0, memory: true, log: false, fanout: { queueThreshold: 2 } });
  return () => server.close();
});

const here = () => ({ env: { SLUICE_URL: server.url } });

async function create(path: string, type = "application/json", url = server.url): Promise<void> {
  const response = await fetch(`${url}/v1/stream/${path}`, { method: "PUT", headers: { "Content-Type": type } });
  expect(response.status).toBe(201);
}

async function run(args: readonly string[], url = server.url): Promise<string> {
  const ended = await sluice(args, { env: { SLUICE_URL: url } });
  expect(ended.code, `sluice ${args.join(" ")}: ${ended.stderr}`).toBe(0);
  return ended.stdout.trim();
}

describe("an error", () => {
  it.each(SESSION_REFUSALS)("is one line on standard error and an exit code: %s", async (_, args, code, says) => {
    const ended = await sluice(args, here());
    expect(ended.stderr).toMatch(says);
    expect(ended).toMatchObject({ code, stdout: "" });
    expect(ended.stderr).toMatch(/^sluice: .*\n$/);
  });

  it("with some of several streams names the session, which may be new, and the streams it follows", async () => {
    await create("some/a");
    await create("some/text", "text/plain");
    const ended = await sluice(["session", "subscribe", "some/a", "some/text"], here());
    expect(ended).toMatchObject({ code: 5, stdout: "" });
    const [, session] = /409 .*; the session (\S{36}) follows some\/a\n$/.exec(ended.stderr)!;
    expect(await run(["session", "info", session!])).toContain("some/a");
  });
});

describe("publish", () => {
  it("reports copies that are still on their way, and succeeds", async () => {
    await create("many/a");
    for (const _ of [1, 2, 3]) await run(["session", "subscribe", "many/a"]);
    const { code, stderr } = await sluice(["publish", "many/a", "1"], here());
    expect([code, stderr]).toEqual([0, "sluice: copies for 3 sessions are on their way (queued)\n"]);
  });

  it("to a stream that is closed ends with 5", async () => {
    await create("closed/a");
    await run(["session", "subscribe", "closed/a"]);
    await run(["stream", "close", "closed/a"]);
    const { code, stderr } = await sluice(["publish", "closed/a", "1"], here());
    expect([code, stderr]).toEqual([5, expect.stringContaining("409 stream-closed")]);
  });
});

describe("session tail", () => {
  it("may run twice on one session, and both readers see every copy", async () => {
    await create("twice/a");
    const session = await run(["session", "subscribe", "twice/a"]);
    const tails = [1, 2].map(() => start(["session", "tail", session, "--limit", "3"], here()));
    for (const text of ["1", "2", "3"]) await run(["publish", "twice/a", text]);
    for (const tail of tails) expect(await tail.ended).toMatchObject({ code: 0, stdout: "1\n2\n3\n" });
  });

  it("ends with 3 when its session ends", async () => {
    await create("ends/a");
    const session = await run(["session", "subscribe", "ends/a"]);
    await run(["publish", "ends/a", "1"]);
    const tail = start(["session", "tail", session], here());
    await eventually(() => expect(tail.said.stdout).toBe("1\n"));
    await run(["session", "rm", session]);
    const { code, stderr } = await tail.ended;
    expect([code, stderr]).toEqual([
      3,
      `sluice: the session ${session} is over: it was deleted, or not used for too long\n`,
    ]);
  });

  it("resumes after its server restarts, and loses and repeats nothing", async () => {
    const data = dirForTest();
    const first = await serveInProcess(["--data", data]);
    const { url } = first;
    await create("a", "application/json", url);
    const session = await run(["session", "subscribe", "a"], url);
    const tail = start(["session", "tail", session], { env: { SLUICE_URL: url } });
    await run(["publish", "a", '"early"'], url);
    await eventually(() => expect(tail.said.stdout).toBe('"early"\n'));
    first.child.kill("SIGKILL");
    await first.ended;
    await eventually(() => expect(tail.said.stderr).toContain("trying again"));
    await serveInProcess(["--data", data, "--port", new URL(url).port]);
    await run(["publish", "a", '["late","last"]'], url);
    await eventually(() => expect(tail.said.stdout).toContain('"last"\n'));
    tail.child.kill("SIGTERM");
    const { code, stdout, stderr } = await tail.ended;
    expect([code, stdout]).toEqual([0, '"early"\n"late"\n"last"\n']);
    expect(stderr).toContain("connected again");
  });
});
