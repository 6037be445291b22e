/** How commands end: exit codes, one clear line for every error, pipes that close, signals, and a server that goes away. */
import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer as createTcpServer } from "node:net";
import { join } from "node:path";
import { createServer, type RunningServer } from "@sluice/server";
import { beforeAll, describe, expect, it } from "vitest";
import { EXIT, EXIT_MEANINGS } from "../../packages/server/src/cli/exit.ts";
import { eventually, serverForTest } from "../e2e/server.ts";
import { bundledBin } from "../support/server-bundle.ts";
import { cleanEnv, dirForTest, serveInProcess, sluice, start } from "../support/sluice-process.ts";

let server: RunningServer;

beforeAll(async () => {
  server = await createServer({ port: 0, memory: true, log: false });
  return () => server.close();
});

const here = () => ({ env: { SLUICE_URL: server.url } });

function put(path: string, type: string, body = ""): Promise<Response> {
  const init = { method: "PUT", headers: { "Content-Type": type }, ...(body === "" ? {} : { body }) };
  return fetch(`${server.url}/v1/stream/${path}`, init);
}

describe("sluice without arguments", () => {
  it("tells a newcomer what to do next", async () => {
    const { code, stdout, stderr } = await sluice([]);
    expect([code, stderr]).toEqual([0, ""]);
    for (const command of ["sluice serve", "sluice stream create", "sluice stream append", "sluice --help"]) {
      expect(stdout).toContain(command);
    }
  });

  it("lists all exit codes in its help", async () => {
    const { stdout } = await sluice(["--help"]);
    const docs = readFileSync(new URL("../../docs/command-line.md", import.meta.url), "utf8");
    for (const code of Object.values(EXIT)) {
      expect(stdout).toContain(`${code}  ${EXIT_MEANINGS[code]}`);
      expect(docs).toContain(`| ${code} | ${EXIT_MEANINGS[code]} |`);
    }
  });
});

describe("an error", () => {
  it.each([
    ["an unknown command", ["strem"], 2, /unknown command 'strem'; did you mean stream\?/],
    ["an unknown command of a group", ["stream", "lst"], 2, /unknown command 'lst'/],
    ["an unknown flag", ["stream", "ls", "--jsn"], 2, /unknown option '--jsn'; did you mean --json\?/],
    ["a missing argument", ["stream", "read"], 2, /missing required argument 'path'/],
    ["a flag without its value", ["serve", "--port"], 2, /--port <N>' argument missing/],
    [
      "an offset that is none",
      ["stream", "read", "a", "--from", "yesterday"],
      2,
      /--from must be beginning, now or an offset/,
    ],
    ["a malformed time", ["stream", "create", "a", "--ttl", "soon"], 2, /--ttl must be a time like/],
    [
      "an end that is over",
      ["stream", "create", "a", "--expires-at", "2001-01-01T00:00:00Z"],
      2,
      /--expires-at .* is over/,
    ],
    [
      "an end that is no time",
      ["stream", "create", "a", "--expires-at", "soon"],
      2,
      /--expires-at must be a time like/,
    ],
    [
      "two ends",
      ["stream", "create", "a", "--ttl", "1h", "--expires-at", "2101-01-01T00:00:00Z"],
      2,
      /--ttl and --expires-at exclude each other/,
    ],
    [
      "a fork at no offset",
      ["stream", "create", "a", "--fork-from", "b", "--fork-offset", "beginning"],
      2,
      /--fork-offset must be an offset like/,
    ],
    ["a fork of nothing", ["stream", "create", "a", "--fork-offset", "x"], 2, /--fork-offset needs --fork-from/],
    ["an empty message", ["stream", "append", "errors/json", ""], 2, /a message cannot be empty/],
    ["a malformed header", ["stream", "ls", "-H", "nonsense"], 2, /is not a header/],
    ["a malformed server address", ["stream", "ls", "--url", "localhost"], 2, /is not the address of a server/],
    ["a malformed project name", ["stream", "ls", "--project", "a/b"], 2, /a project is named by/],
    ["a path with a level of dots", ["stream", "read", "a/../b"], 2, /a text that an address can express/],
    ["an unknown context", ["stream", "ls", "--context", "none"], 2, /there is no context none/],
    ["a count without messages to count", ["stream", "read", "a", "--limit", "1"], 2, /--limit counts messages/],
    ["nothing to append", ["stream", "append", "errors/json"], 2, /standard input is empty/],
    ["a malformed message", ["stream", "append", "errors/json", "{oops"], 1, /not JSON.*\(400 bad-body\)/],
    ["a read of a missing stream", ["stream", "read", "errors/none"], 3, /there is no stream errors\/none/],
    ["a tail of a missing stream", ["stream", "tail", "errors/none"], 3, /there is no stream errors\/none/],
    ["the info of a missing stream", ["stream", "info", "errors/none"], 3, /there is no stream errors\/none/],
    ["an append to a missing stream", ["stream", "append", "errors/none", "x"], 3, /no stream errors\/none/],
    ["a missing directory", ["doctor", "/no/such/dir"], 3, /there is no directory/],
    ["a reserved name", ["stream", "create", "$mine"], 4, /reserved/],
    [
      "a stream that exists with another configuration",
      ["stream", "create", "errors/json", "-t", "text/plain"],
      5,
      /\(409 stream-exists\)/,
    ],
    [
      "a server that does not answer",
      ["stream", "ls", "--url", "http://127.0.0.1:2"],
      6,
      /no server answers at .*sluice serve/,
    ],
  ])("is one line on standard error and an exit code: %s", async (_, args, code, says) => {
    await put("errors/json", "application/json");
    const ended = await sluice(args, here());
    expect(ended.stderr).toMatch(says);
    expect(ended).toMatchObject({ code, stdout: "" });
    expect(ended.stderr).toMatch(/^sluice: .*\n$/);
  });

  it("in many lines of input is reported with its line and the progress so far", async () => {
    await put("errors/lines", "application/json");
    const ended = await sluice(["stream", "append", "errors/lines", "--json"], { ...here(), stdin: "1\n2\n{\n4\n" });
    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(/line 3 is not JSON.*2 messages were appended before, up to \d{16}_\d{16}\n$/);
    expect(await (await fetch(`${server.url}/v1/stream/errors/lines`)).json()).toEqual([1, 2]);
  });

  it("of the configuration is reported together with all others, and the server does not start", async () => {
    const args = ["serve", "--prot", "80", "stray", "--port", "eighty", "--set", "nothing=1"];
    const ended = await sluice(args, { env: { SLUICE_NOTHING: "1", SLUICE_LONG_POLL_MS: "1s" } });
    expect(ended).toMatchObject({ code: 2, stdout: "" });
    const lines = ended.stderr.trim().split("\n");
    expect(lines).toHaveLength(6);
    for (const line of lines) expect(line).toMatch(/^sluice: /);
    expect(ended.stderr).toContain("--prot is not a flag of this command; did you mean --port?");
    expect(ended.stderr).toContain(
      'port (from the flag --port) is "eighty"; it must be a whole number from 0 to 65535',
    );
  });

  it("of the start is reported with a remedy", async () => {
    const busy = createTcpServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => busy.once("listening", resolve));
    const { port } = busy.address() as { port: number };
    const taken = await sluice(["serve", "--memory", "--port", String(port)]);
    busy.close();
    expect(taken).toMatchObject({ code: 1, stdout: "" });
    expect(taken.stderr).toMatch(new RegExp(`^sluice: .*port ${port} of 127\\.0\\.0\\.1 is in use; .*--port`));
    const nowhere = await sluice(["serve", "--memory", "--no-auth", "--port", "0", "--host", "999.1.1.1"]);
    expect(nowhere).toMatchObject({ code: 1, stdout: "" });
    expect(nowhere.stderr).toMatch(/^sluice: .*999\.1\.1\.1 is not an address; see --host\n$/);
    const exposed = await sluice(["serve", "--memory", "--port", "0", "--host", "0.0.0.0"]);
    expect(exposed).toMatchObject({ code: 2, stdout: "" });
    expect(exposed.stderr).toMatch(/no keys are configured.*SLUICE_SECRET_default.*--no-auth/);
    const open = await serveInProcess(["--memory", "--host", "0.0.0.0", "--no-auth"]);
    expect(open.url).toMatch(/^http:\/\/0\.0\.0\.0:/);
    expect(open.said.stderr).not.toContain("no keys");
    const redis = await sluice(["serve", "--redis", "redis://127.0.0.1:1", "--data", "x"]);
    expect(redis).toMatchObject({ code: 2, stdout: "" });
    expect(redis.stderr).toContain("--data and --redis exclude each other");
  });
});

describe("a data directory", () => {
  it("that is in use ends a second server with 5", async () => {
    const data = join(dirForTest(), "data");
    await serverForTest("disk", { data });
    const second = await sluice(["serve", "--port", "0", "--data", data]);
    expect(second).toMatchObject({ code: 5, stdout: "" });
    expect(second.stderr).toMatch(new RegExp(`^sluice: .* is in use by process ${process.pid}; .*\\n$`));
  });

  it("that is a file is reported as one, by serve and by doctor, in one line", async () => {
    const file = join(dirForTest(), "afile");
    writeFileSync(file, "");
    const served = await sluice(["serve", "--port", "0", "--data", file]);
    expect(served).toMatchObject({ code: 1, stdout: "" });
    expect(served.stderr).toMatch(/^sluice: .*afile is a file\.\n$/);
    const below = await sluice(["serve", "--port", "0", "--data", join(file, "data")]);
    expect(below.stderr).toMatch(/^sluice: .*below something that is a file\.\n$/);
    const examined = await sluice(["doctor", file]);
    expect(examined).toMatchObject({ code: 3, stdout: "" });
    expect(examined.stderr).toMatch(/^sluice: .*afile is not a directory\n$/);
  });

  it("that cannot be read is reported in one line, with the reason", async () => {
    const { code, stderr } = await sluice(["doctor", "x".repeat(300)]);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^sluice: x+ cannot be read: ENAMETOOLONG.*\n$/);
  });

  it("is accessible to its owner and group only", async () => {
    const data = join(dirForTest(), "data");
    const { url } = await serverForTest("disk", { data });
    expect((await fetch(`${url}/v1/stream/a`, { method: "PUT", body: "hello" })).status).toBe(201);
    const names = readdirSync(data, { recursive: true, encoding: "utf8" });
    expect(names).toContain("store.mdb");
    for (const path of [data, ...names.map((name) => join(data, name))]) {
      // A user that cannot enter the directory cannot use a socket in it.
      if (!path.endsWith(".sock")) expect(statSync(path).mode & 0o027, path).toBe(0);
    }
  });
});

describe("a server that cannot answer now", () => {
  it("is quoted with its reason, also after a HEAD", async () => {
    const { createServer: createHttp } = await import("node:http");
    const listener = createHttp((_, response) => {
      response.writeHead(503, { "Content-Type": "application/problem+json" });
      response.end('{"detail":"no room on the disk","code":"storage-full"}');
    }).listen(0, "127.0.0.1");
    await new Promise((resolve) => listener.once("listening", resolve));
    const url = `http://127.0.0.1:${(listener.address() as { port: number }).port}`;
    const ended = await sluice(["stream", "append", "a", "x", "--url", url]);
    listener.close();
    expect(ended).toMatchObject({ code: 6, stdout: "" });
    expect(ended.stderr).toContain("no room on the disk (503 storage-full)");
  });
});

describe("output", () => {
  it("that cannot be written is reported in one line", async () => {
    const full = openSync("/dev/full", "w");
    const child = spawn(process.execPath, [bundledBin(), "config", "docs"], {
      stdio: ["ignore", full, "pipe"],
      env: cleanEnv(),
    });
    closeSync(full);
    let stderr = "";
    child.stderr!.on("data", (chunk) => {
      stderr += chunk;
    });
    const code = await new Promise((resolve) => child.on("close", resolve));
    expect(stderr).toMatch(/^sluice: .*standard output: .*ENOSPC.*\n$/);
    expect(code).toBe(1);
  });

  it("has no colors when it goes to no terminal", async () => {
    await put("colors/a", "text/plain");
    for (const args of [["--help"], ["stream", "ls"], ["stream", "nonsense"], ["config", "check"]]) {
      const { stdout, stderr } = await sluice(args, here());
      expect(stdout + stderr).not.toContain("\x1b");
    }
  });

  it("may lose its reader at any time", async () => {
    await put(
      "pipe/a",
      "application/json",
      `[${Array.from({ length: 100_000 }, (_, i) => `"message ${i}"`).join(",")}]`,
    );
    const { child, ended } = start(["stream", "read", "pipe/a", "--json"], here());
    child.stdout!.once("data", () => child.stdout!.destroy());
    expect(await ended).toMatchObject({ code: 0, signal: null, stderr: "" });
  });

  it("with control characters in names cannot steer the terminal", async () => {
    const ended = await sluice(["stream", "read", "a\u001b[2Jb"], here());
    expect(ended.code).not.toBe(0);
    expect(ended.stderr).not.toContain("\x1b");
  });
});

describe("tail", () => {
  it.each(["SIGINT", "SIGTERM"] as const)("exits with success on %s", async (signal) => {
    await put(`tail/${signal}`, "application/json", "[1]");
    const { child, ended, said } = start(["stream", "tail", `tail/${signal}`, "--from", "beginning"], here());
    await eventually(() => expect(said.stdout).toBe("1\n"));
    child.kill(signal);
    expect(await ended).toMatchObject({ code: 0, signal: null, stdout: "1\n", stderr: "" });
  });

  it("resumes after its server restarts, and loses and repeats nothing", async () => {
    const data = join(dirForTest(), "data");
    const first = await serveInProcess(["--data", data]);
    const stream = `${first.url}/v1/stream/a`;
    const headers = { "Content-Type": "application/json" };
    await fetch(stream, { method: "PUT", headers });
    const tail = start(["stream", "tail", "a"], { env: { SLUICE_URL: first.url } });
    // Once it prints the message after the end, it has asked for the end.
    await eventually(async () => {
      await fetch(stream, { method: "POST", headers, body: '"early"' });
      expect(tail.said.stdout).toContain('"early"\n');
    });
    first.child.kill("SIGKILL");
    await first.ended;
    await eventually(() => expect(tail.said.stderr).toContain("trying again"));
    await serveInProcess(["--data", data, "--port", new URL(first.url).port]);
    await fetch(stream, { method: "POST", headers, body: '["late",{"last":true}]' });
    await fetch(stream, { method: "POST", headers: { "Stream-Closed": "true" } });
    const { code, stdout, stderr } = await tail.ended;
    expect(code).toBe(0);
    const kept = ((await (await fetch(stream)).json()) as unknown[]).map((message) => JSON.stringify(message));
    expect(kept.slice(-2)).toEqual(['"late"', '{"last":true}']);
    const seen = stdout.trim().split("\n");
    expect(kept.slice(-seen.length)).toEqual(seen);
    expect(seen.length).toBeGreaterThanOrEqual(3);
    expect(stderr).toContain("connected again");
  });
});

describe("a secret", () => {
  it.each([
    ["a token with a line break", ["stream", "ls"], { SLUICE_TOKEN: "s3cr3t\nb" }],
    ["a token of a flag", ["stream", "ls", "--token", "s3cr3té"], {}],
    ["a token to remember", ["context", "add", "x", "--url", "http://h", "--token", "s3cr3t\nb"], {}],
    ["a password in an address", ["stream", "ls", "--url", "http://u:s3cr3t@127.0.0.1:2"], {}],
    ["a password in an address to remember", ["context", "add", "x", "--url", "http://u:s3cr3t@h"], {}],
    ["a password in a malformed address", ["stream", "ls", "--url", "u:s3cr3t@h"], {}],
    ["a malformed header", ["stream", "ls", "-H", "Authorization Bearer s3cr3t"], {}],
    ["a header with odd characters", ["stream", "ls", "-H", "Authorization: s3cr3t\u2028"], {}],
  ])("is refused as usage and not printed: %s", async (_, args, env) => {
    const ended = await sluice(args, { env: { ...env, XDG_CONFIG_HOME: dirForTest() } });
    expect(ended).toMatchObject({ code: 2, stdout: "" });
    expect(ended.stderr).toMatch(/^sluice: .*\n$/);
    expect(ended.stderr).not.toContain("s3cr3t");
  });
});

describe("a password that was written into the contexts by hand", () => {
  it("is not printed, and its address is not used", async () => {
    const env = { XDG_CONFIG_HOME: dirForTest() };
    mkdirSync(join(env.XDG_CONFIG_HOME, "sluice"));
    const text = '{"current":"a","contexts":{"a":{"url":"http://u:s3cr3t@127.0.0.1:2"}}}';
    writeFileSync(join(env.XDG_CONFIG_HOME, "sluice", "contexts.json"), text);
    for (const [code, ...args] of [
      [0, "context", "ls"],
      [0, "context", "ls", "--json"],
      [0, "context", "use", "a"],
      [2, "stream", "ls"],
    ] as const) {
      const ended = await sluice(args, { env });
      expect(ended.code).toBe(code);
      expect(ended.stdout + ended.stderr).not.toContain("s3cr3t");
    }
  });
});

describe("a token", () => {
  it("goes to its own server only, and from the environment or a flag to any", async () => {
    const seen: (string | undefined)[] = [];
    const { createServer: createHttp } = await import("node:http");
    const listener = createHttp((request, response) => {
      seen.push(request.headers.authorization);
      response.end('{"streams":[]}');
    }).listen(0, "127.0.0.1");
    await new Promise((resolve) => listener.once("listening", resolve));
    const url = `http://127.0.0.1:${(listener.address() as { port: number }).port}`;
    const env = { XDG_CONFIG_HOME: dirForTest() };
    await sluice(["context", "add", "mine", "--url", url, "--token", "t1"], { env });
    await sluice(["stream", "ls"], { env });
    await sluice(["stream", "ls", "--url", url], { env });
    await sluice(["stream", "ls"], { env: { ...env, SLUICE_TOKEN: "t2" } });
    await sluice(["stream", "ls", "--url", url, "--token", "t3"], { env });
    listener.close();
    expect(seen).toEqual(["Bearer t1", undefined, "Bearer t2", "Bearer t3"]);
  });
});

describe("a setting given to the command", () => {
  it("reaches the part that obeys it", async () => {
    const sets = [
      "stream.bodyBytes=20",
      "list.streams=1",
      "internal.list.defaultStreams=1",
      "tail.readers=1",
      "internal.stream.forkDepth=1",
    ];
    const more = [
      "wake.subscriptions=1",
      "internal.wake.bodyBytes=500",
      "stream.bodyMessages=2",
      "internal.http.headersMs=5000",
    ];
    const { url } = await serveInProcess(["--memory", ...[...sets, ...more].flatMap((text) => ["--set", text])]);
    const json = { "Content-Type": "application/json" };
    const send = (method: string, path: string, body?: string, headers: Record<string, string> = json) =>
      fetch(`${url}/v1/${path}`, { method, headers, ...(body === undefined ? {} : { body }) });
    expect((await send("PUT", "stream/a")).status).toBe(201);
    expect((await send("PUT", "stream/b", undefined, { "Stream-Forked-From": "/v1/stream/a" })).status).toBe(201);
    expect((await send("POST", "stream/a", `"${"x".repeat(30)}"`)).status).toBe(413);
    expect((await send("POST", "stream/a", "[1,2,3]")).status).toBe(413);
    expect((await send("POST", "stream/b", "[1]")).status).toBe(204);
    expect((await send("PUT", "stream/c", undefined, { "Stream-Forked-From": "/v1/stream/b" })).status).toBe(400);
    expect((await send("GET", "default/streams?limit=2", undefined, {})).status).toBe(400);
    expect(
      ((await (await send("GET", "default/streams", undefined, {})).json()) as { streams: [] }).streams,
    ).toHaveLength(1);
    const subscribe = (id: string, more = "") =>
      send("PUT", `stream/__ds/subscriptions/${id}`, `{"type":"pull-wake","pattern":"p/*","wake_stream":"w"${more}}`);
    expect((await subscribe("one")).status).toBe(201);
    expect((await subscribe("two")).status).toBe(503);
    expect((await subscribe("two", `,"description":"${"x".repeat(500)}"`)).status).toBe(413);
    const waiting = send("GET", "stream/a?offset=now&live=long-poll", undefined, {});
    waiting.catch(() => {});
    await eventually(async () => {
      expect((await send("GET", "stream/a?offset=now&live=long-poll", undefined, {})).status).toBe(503);
    });
  });
});
