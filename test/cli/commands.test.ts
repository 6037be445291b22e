/** Runs every command of the help for real: it walks the tree of commands, and a command without a row fails. */
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { jwtVerify } from "jose";
import { beforeAll, expect, test } from "vitest";
import { buildProgram } from "../../packages/server/src/cli/program.ts";
import { createServer } from "../../packages/server/src/compose.ts";
import { eventually } from "../e2e/server.ts";
import { dirForTest, type Ended, type Env, serveInProcess, sluice, start } from "../support/sluice-process.ts";
import { channelRows } from "./channel-rows.ts";
import { groupRows } from "./group-rows.ts";
import { listingRows } from "./listing-rows.ts";
import { pullRows } from "./pull-rows.ts";
import { sessionRows } from "./session-rows.ts";

const OFFSET = /^\d{16}_\d{16}\n$/;
let url: string;
let close: () => Promise<void>;

beforeAll(async () => {
  const server = await createServer({ port: 0, memory: true, log: false });
  ({ url } = server);
  close = () => server.close();
  return () => close();
});

/** Runs a command that must succeed, against the server of this file. */
async function ok(args: readonly string[], stdin: string | Uint8Array = "", env: Env = {}): Promise<Ended> {
  const ended = await sluice(args, { stdin, env: { SLUICE_URL: url, ...env } });
  expect(ended.code, `sluice ${args.join(" ")}: ${ended.stderr}`).toBe(0);
  return ended;
}

async function created(path: string, type: string): Promise<void> {
  const response = await fetch(`${url}/v1/stream/${path}`, { method: "PUT", headers: { "Content-Type": type } });
  expect(response.status).toBe(201);
}

async function appended(path: string, type: string, body: string): Promise<void> {
  const response = await fetch(`${url}/v1/stream/${path}`, { method: "POST", headers: { "Content-Type": type }, body });
  expect(response.status).toBe(204);
}

const SECRET = "a-secret-of-more-than-32-characters";

const rows: Readonly<Record<string, () => Promise<void>>> = {
  ...channelRows(() => url, ok),
  ...groupRows(() => url, ok),
  ...listingRows(() => url, ok),
  ...pullRows(() => url, ok),
  ...sessionRows(() => url, ok),

  async serve() {
    const { url: own, child, ended, said } = await serveInProcess();
    expect((await fetch(`${own}/ready`)).status).toBe(200);
    child.kill("SIGTERM");
    expect(await ended).toMatchObject({ code: 0, stdout: `sluice ready ${own}\n` });
    expect(said.stderr).toContain("no keys are configured");
  },

  async "stream create"() {
    const { stdout } = await ok([
      "stream",
      "create",
      "made/a",
      "--type",
      "text/plain",
      "--ttl",
      "1h",
      "--max-messages",
      "7",
    ]);
    expect(stdout).toBe("created made/a (text/plain)\n");
    const { headers } = await fetch(`${url}/v1/stream/made/a`, { method: "HEAD" });
    expect([headers.get("stream-ttl"), headers.get("stream-max-messages")]).toEqual(["3600", "7"]);
    await appended("made/a", "text/plain", "one");
    await ok(["stream", "create", "made/fork", "--fork-from", "made/a"]);
    expect(await (await fetch(`${url}/v1/stream/made/fork`)).text()).toBe("one");
    const repeated = await ok([
      "stream",
      "create",
      "made/a",
      "-t",
      "text/plain",
      "--ttl",
      "3600",
      "--max-messages",
      "7",
    ]);
    expect(repeated.stdout).toBe("exists made/a (text/plain)\n");
  },

  async "stream append"() {
    await created("append/json", "application/json");
    expect((await ok(["stream", "append", "append/json", '{"n":1}'])).stdout).toMatch(OFFSET);
    const lines = '{"n":2}\r\n\n[3]\n12345678901234567890';
    expect((await ok(["stream", "append", "append/json", "--json"], lines)).stdout).toMatch(OFFSET);
    await ok(["stream", "append", "append/json", "-H", "Message-Key: k", "-H", "Message-Id: i"], '{"n":4}');
    const text = await (await fetch(`${url}/v1/stream/append/json`)).text();
    expect(text).toBe('[{"n":1},{"n":2},[3],12345678901234567890,{"n":4}]');
    const envelopes = (await (
      await fetch(`${url}/v1/stream/append/json?offset=-1&format=envelope`)
    ).json()) as object[];
    expect(envelopes.at(-1)).toMatchObject({ key: "k", id: "i" });

    await created("append/bytes", "application/octet-stream");
    const bytes = Uint8Array.from({ length: 70_000 }, (_, i) => i % 256);
    await ok(["stream", "append", "append/bytes"], bytes);
    const stored = new Uint8Array(await (await fetch(`${url}/v1/stream/append/bytes`)).arrayBuffer());
    expect(Buffer.compare(stored, bytes)).toBe(0);

    await created("append/text", "text/plain");
    await ok(["stream", "append", "append/text", "--lines"], "a\r\n\nb\n");
    // Byte for byte, white space and invalid UTF-8 included; a CR belongs to the line end only before an LF.
    const odd = Buffer.from([0xff, 0x0a, 0x20, 0x20, 0x0a, 0x0a, 0x61, 0x0d, 0x62, 0x0d]);
    await created("append/odd", "application/octet-stream");
    await ok(["stream", "append", "append/odd", "--lines"], odd);
    const oddRead = await fetch(`${url}/v1/stream/append/odd?offset=-1&format=envelope`);
    expect(
      ((await oddRead.json()) as { payload: string }[]).map(({ payload }) =>
        Buffer.from(payload, "base64").toString("hex"),
      ),
    ).toEqual(["ff", "2020", "610d620d"]);
    const read = await ok(["stream", "read", "append/text", "--json"]);
    expect(
      read.stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line).payload),
    ).toEqual(["a", "b"]);
  },

  async "stream read"() {
    await created("read/json", "application/json");
    await appended("read/json", "application/json", '[{"a":1},{"b":\n2},3]');
    expect((await ok(["stream", "read", "read/json"])).stdout).toBe('[{"a":1},{"b":\n2},3]');
    expect((await ok(["stream", "read", "read/json", "--json"])).stdout).toBe('{"a":1}\n{"b": 2}\n3\n');
    expect((await ok(["stream", "read", "read/json", "--json", "--limit", "2"])).stdout).toBe('{"a":1}\n{"b": 2}\n');
    const envelopes = (await ok(["stream", "read", "read/json", "--envelope"])).stdout.trim().split("\n");
    const second = JSON.parse(envelopes[1]!).offset as string;
    expect((await ok(["stream", "read", "read/json", "--json", "--from", second])).stdout).toBe("3\n");
    expect((await ok(["stream", "read", "read/json", "--from", "now"])).stdout).toBe("[]");
    await created("read/text", "text/plain");
    for (const text of ["one", "two\n", "three"]) await appended("read/text", "text/plain", text);
    expect((await ok(["stream", "read", "read/text"])).stdout).toBe("onetwo\nthree");
    expect((await ok(["stream", "read", "read/text", "--lines"])).stdout).toBe("one\ntwo\n\nthree\n");
    expect((await ok(["stream", "read", "read/text", "--lines", "--limit", "1"])).stdout).toBe("one\n");
    expect((await ok(["stream", "read", "read/json", "--offset"])).stderr).toMatch(/go on with --from \d{16}_\d{16}/);
  },

  async "stream tail"() {
    await created("tail/json", "application/json");
    await appended("tail/json", "application/json", "[1,2]");
    const tail = start(["stream", "tail", "tail/json", "--from", "beginning"], { env: { SLUICE_URL: url } });
    await eventually(() => expect(tail.said.stdout).toBe("1\n2\n"));
    await appended("tail/json", "application/json", '{"late":true}');
    await eventually(() => expect(tail.said.stdout).toBe('1\n2\n{"late":true}\n'));
    await fetch(`${url}/v1/stream/tail/json`, { method: "POST", headers: { "Stream-Closed": "true" } });
    expect((await tail.ended).code).toBe(0);
    await created("tail/text", "text/plain");
    for (const text of ["one", "two"]) await appended("tail/text", "text/plain", text);
    const lines = await ok(["stream", "tail", "tail/text", "--from", "beginning", "--lines", "--limit", "2"]);
    expect(lines.stdout).toBe("one\ntwo\n");
    const limited = await ok(["stream", "tail", "tail/json", "--from", "beginning", "--limit", "2"]);
    expect(limited.stdout).toBe("1\n2\n");
  },

  async "stream ls"() {
    for (const path of ["ls/a", "ls/b", "ls/c/d"]) await created(path, "text/plain");
    const { stdout } = await ok(["stream", "ls", "ls/"]);
    expect(stdout).toMatch(/^PATH +TYPE +MESSAGES/);
    expect(stdout.match(/^ls\S+/gm)).toEqual(["ls/a", "ls/b", "ls/c/d"]);
    const filtered = await ok(["stream", "ls", "--filter", "ls/+", "--json", "--limit", "1"]);
    expect(JSON.parse(filtered.stdout)).toMatchObject({ path: "ls/a", messages: 0 });
    expect(filtered.stderr).toContain("there are more");
  },

  async "stream info"() {
    await ok(["stream", "create", "info/topic", "--shards", "3"]);
    const topic = JSON.parse((await ok(["stream", "info", "info/topic", "--json"])).stdout);
    expect(topic).toMatchObject({ path: "info/topic", shards: 3, messages: 0 });
    await created("info/a", "text/plain");
    await appended("info/a", "text/plain", "hello");
    expect((await ok(["stream", "info", "info/a"])).stdout).toMatch(/contentType +text\/plain\n[\s\S]*bytes +5\n/);
    const { stdout } = await ok(["stream", "info", "info/a", "--json"]);
    const info = JSON.parse(stdout);
    expect(info).toMatchObject({ path: "info/a", messages: 1, bytes: 5, closed: false });
    // The same names and forms as in a listing.
    const listed = JSON.parse((await ok(["stream", "ls", "info/a", "--json"])).stdout);
    for (const name of ["createdAt", "lastAppendAt", "nextOffset", "contentType"])
      expect(info[name]).toBe(listed[name]);
  },

  async "stream close"() {
    await created("close/a", "text/plain");
    expect((await ok(["stream", "close", "close/a"])).stdout).toMatch(/^closed close\/a at \d/);
    const { headers } = await fetch(`${url}/v1/stream/close/a`, { method: "HEAD" });
    expect(headers.get("stream-closed")).toBe("true");
  },

  async "stream rm"() {
    await created("rm/a", "text/plain");
    await created("rm/b", "text/plain");
    expect((await ok(["stream", "rm", "rm/a", "rm/b"])).stdout).toBe("deleted rm/a\ndeleted rm/b\n");
    expect((await fetch(`${url}/v1/stream/rm/b`)).status).toBe(404);
  },

  async token() {
    const { stdout } = await ok(
      ["token", "--project", "shop", "--scope", "read,write", "--ttl", "15m", "--sub", "ada", "--streams", "a/+,b/#"],
      "",
      { SLUICE_SECRET_shop: `${SECRET} an-older-secret-that-is-still-valid-too`, SLUICE_ISSUER_shop: "us" },
    );
    const { payload, protectedHeader } = await jwtVerify(stdout.trim(), new TextEncoder().encode(SECRET));
    expect(protectedHeader.alg).toBe("HS256");
    expect(payload).toMatchObject({
      sub: "ada",
      scope: "read write",
      project: "shop",
      streams: ["a/+", "b/#"],
      iss: "us",
    });
    expect(payload.exp! - payload.iat!).toBe(900);
    const fromEnv = await ok(["token"], "", { SLUICE_SECRET_shop: SECRET, SLUICE_PROJECT: "shop" });
    expect((await jwtVerify(fromEnv.stdout.trim(), new TextEncoder().encode(SECRET))).payload.project).toBe("shop");
    const without = await sluice(["token", "--project", "shop"]);
    expect(without).toMatchObject({ code: 2, stdout: "" });
    expect(without.stderr).toContain("SLUICE_SECRET_shop");
  },

  async "config check"() {
    expect((await ok(["config", "check", "--port", "0"])).stdout).toBe("ok\n");
    const wrong = await sluice(["config", "check", "--port", "many"]);
    expect(wrong).toMatchObject({ code: 2, stdout: "" });
  },

  async "config print"() {
    const file = join(dirForTest(), "sluice.yaml");
    writeFileSync(file, "port: 1\nstream: { pageBytes: 10 }\n");
    const env = { SLUICE_PORT: "2", SLUICE_SECRET_a: SECRET, SLUICE_REDIS: "redis://:topsecret@h:1" };
    const { stdout } = await ok(["config", "print", "--config", file, "--host", "::1", "--changed"], "", env);
    expect(stdout).toMatch(/^host +"::1" +the flag --host$/m);
    expect(stdout).toMatch(/^port +2 +the variable SLUICE_PORT$/m);
    expect(stdout).toContain(`the file ${file}`);
    expect(stdout).toMatch(/^projects\.a\.secrets +\(hidden\)/m);
    expect(stdout).toMatch(/^redis\.urls +\["redis:\/\/\(hidden\)@h:1"\]/m);
    expect(stdout).not.toMatch(/topsecret|a-secret/);
    const json = await ok(["config", "print", "--json"]);
    expect(JSON.parse(json.stdout.split("\n")[0]!)).toEqual({ key: "host", value: "127.0.0.1", from: "default" });
    expect(JSON.parse(json.stdout.split("\n")[1]!)).toEqual({ key: "port", value: 4437, from: "default" });
  },

  async "config docs"() {
    const { stdout } = await ok(["config", "docs"]);
    expect(stdout).toBe(readFileSync(new URL("../../docs/configuration.md", import.meta.url), "utf8"));
  },

  async "bench append"() {
    const { stdout } = await ok(["bench", "append", "--count", "50", "--connections", "4", "--streams", "2", "--csv"]);
    const [head, row] = stdout.split("\n").map((line) => line.split(","));
    const result = Object.fromEntries(head!.map((name, i) => [name, row![i]]));
    expect(result).toMatchObject({ name: "append", count: "50", bytes: String(50 * 256), failures: "0" });
    expect(Number(result.p99_ms)).toBeGreaterThan(0);
    expect((await ok(["stream", "ls", "bench/"])).stdout).toBe("");
  },

  async "bench read"() {
    const { stdout } = await ok(["bench", "read", "--count", "10", "--messages", "100", "--connections", "2"]);
    expect(stdout).toMatch(/^pages +10$/m);
    expect(stdout).toMatch(/^latency +p50 [\d.]+ ms/m);
  },

  async "bench tail"() {
    const { stdout } = await ok(["bench", "tail", "--count", "20", "--readers", "2", "--rate", "200", "--keep"]);
    expect(stdout).toMatch(/^deliveries +2\d$/m);
    expect((await ok(["stream", "ls", "bench/"])).stdout).toContain("bench/");
  },

  async doctor() {
    const dir = join(dirForTest(), "data");
    const server = await createServer({ port: 0, data: dir, log: false });
    await fetch(`${server.url}/v1/stream/a`, { method: "PUT", body: "hello" });
    await server.close();
    const { stdout } = await ok(["doctor", dir]);
    expect(stdout).toMatch(/^ok {4}lock[\s\S]*^ok {4}format[\s\S]*^ok {4}store[\s\S]*^ok {4}journal/m);
  },

  async "context add"() {
    const env = { XDG_CONFIG_HOME: dirForTest() };
    const added = await sluice(["context", "add", "here", "--url", `${url}/`, "--project", "shop", "--token-stdin"], {
      env,
      stdin: "a-token\n",
    });
    expect(added).toMatchObject({ code: 0 });
    const path = join(env.XDG_CONFIG_HOME, "sluice", "contexts.json");
    expect(JSON.parse(readFileSync(path, "utf8"))).toEqual({
      current: "here",
      contexts: { here: { url, project: "shop", token: "a-token" } },
    });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    // An option that is not given stays; a token does not move to another server.
    const context = () => JSON.parse(readFileSync(path, "utf8")).contexts.here;
    expect(await sluice(["context", "add", "here", "--token", "b"], { env })).toMatchObject({ code: 0 });
    expect(context()).toEqual({ url, project: "shop", token: "b" });
    expect(await sluice(["context", "add", "here", "--project", "mall"], { env })).toMatchObject({ code: 0 });
    expect(context()).toEqual({ url, project: "mall", token: "b" });
    const moved = await sluice(["context", "add", "here", "--url", "http://elsewhere"], { env });
    expect(moved.stderr).toContain("the token");
    expect(context()).toEqual({ url: "http://elsewhere", project: "mall" });
    expect(await sluice(["context", "add", "new"], { env })).toMatchObject({ code: 2 });
    await sluice(["context", "add", "here", "--url", url, "--project", "shop"], { env });
    // The context alone leads to the server.
    expect(await sluice(["stream", "create", "by-context"], { env })).toMatchObject({ code: 0 });
    expect((await fetch(`${url}/v1/shop/stream/by-context`)).status).toBe(200);
  },

  async "context use"() {
    const env = await twoContexts();
    expect(await sluice(["stream", "ls"], { env })).toMatchObject({ code: 6 });
    expect(await sluice(["context", "use", "right"], { env })).toMatchObject({ code: 0 });
    expect(await sluice(["stream", "ls"], { env })).toMatchObject({ code: 0 });
    expect(await sluice(["context", "use", "none"], { env })).toMatchObject({ code: 2 });
  },

  async "context ls"() {
    const { stdout } = await sluice(["context", "ls"], { env: await twoContexts() });
    expect(stdout).toMatch(/^\* +wrong +http:\/\/127\.0\.0\.1:2 +default +\(hidden\)$/m);
    expect(stdout).toMatch(/^ +right +http/m);
    expect(stdout).not.toContain("s3cret");
  },

  async "context rm"() {
    const env = await twoContexts();
    const removed = await sluice(["context", "rm", "wrong"], { env });
    expect(removed.code).toBe(0);
    expect(removed.stdout).toContain("no context is current now");
    const { stdout } = await sluice(["context", "ls", "--json"], { env });
    expect(stdout.match(/"name":"\w+"/g)).toEqual(['"name":"right"']);
  },
};

async function twoContexts(): Promise<Env> {
  const env = { XDG_CONFIG_HOME: dirForTest() };
  await sluice(["context", "add", "wrong", "--url", "http://127.0.0.1:2", "--token", "s3cret"], { env });
  await sluice(["context", "add", "right", "--url", url], { env });
  return env;
}

/** The names of the commands that have an action of their own. */
function leaves(command: Command, prefix = ""): string[] {
  return command.commands.flatMap((child) => {
    const name = `${prefix}${child.name()}`;
    return child.commands.length > 0 ? leaves(child, `${name} `) : [name];
  });
}

const program = await buildProgram("0");

test.each(leaves(program))("sluice %s does what its help says", async (name) => {
  expect(Object.keys(rows), "every command needs a row here").toContain(name);
  await rows[name]!();
});

test("sluice help COMMAND prints the help of that command, without the flags of another", async () => {
  expect((await sluice(["help", "stream", "create"])).stdout).toBe(
    (await sluice(["stream", "create", "--help"])).stdout,
  );
  for (const name of ["token", "config check", "config print"]) {
    const { stdout } = await sluice([...name.split(" "), "--help"]);
    expect(stdout, name).toContain("every flag of `sluice serve`");
    expect(stdout, name).not.toContain("--drain-ms");
  }
});

test("every row is about an existing command", () => {
  expect(Object.keys(rows).sort()).toEqual(leaves(program).sort());
});

test("every command has a help text with a description and an example that starts with its name", () => {
  for (const name of leaves(program)) {
    const help = helpOf(name);
    expect(help, name).toMatch(/^Usage: sluice/);
    expect(help, name).toMatch(new RegExp(`Examples:\\n(.*\\n)*?.*sluice ${name}`));
  }
});

/** What `sluice NAME --help` prints, without a process for each. */
function helpOf(name: string): string {
  const command = name.split(" ").reduce((at, part) => at.commands.find((one) => one.name() === part)!, program);
  let printed = "";
  const writeOut = (text: string) => {
    printed += text;
  };
  command.configureOutput({ writeOut });
  command.outputHelp();
  return printed;
}
