/** The one certificate of a server: HTTP, WebSockets and gRPC over TLS, renewed files, and files that cannot be used. */
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { connect as connectPlain } from "node:net";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { fileURLToPath } from "node:url";
import { createServer, mint, type RunningServer } from "@sluice/server";
import { describe, expect, it, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import { RawClient, text } from "../grpc/raw-client.ts";
import { dirForTest, sluice, sluiceProcess } from "../support/sluice-process.ts";
import { eventually, serverForTest } from "./server.ts";

const fileOf = (name: string) => fileURLToPath(new URL(`../support/tls/${name}.pem`, import.meta.url));
const FIRST = { cert: fileOf("first-cert"), key: fileOf("first-key") };
const SECOND = { cert: fileOf("second-cert"), key: fileOf("second-key") };
const ca = readFileSync(FIRST.cert);

interface Answer {
  readonly status: number;
  readonly body: string;
}

function ask(agent: Agent, method: string, url: string, body?: string, more: object = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = { "Content-Type": "text/plain", ...more };
    const asked = request(url, { method, agent, headers }, (response) => {
      let said = "";
      response.on("data", (chunk) => {
        said += chunk;
      });
      response.on("end", () => resolve({ status: response.statusCode!, body: said }));
    });
    asked.on("error", reject);
    asked.end(body);
  });
}

function agentForTest(): Agent {
  const agent = new Agent({ ca, keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  return agent;
}

describe.each([true, false])("a server with a certificate (lane: %s)", (lane) => {
  it("serves HTTP, WebSockets and gRPC over TLS, and nothing without it", async () => {
    const { server, url } = await serverForTest("memory", { tls: FIRST, grpcPort: 0, http: { lane } });
    expect(url).toMatch(/^https:/);
    const agent = agentForTest();
    const stream = `${url}/v1/p/stream/s`;
    expect((await ask(agent, "PUT", stream)).status).toBe(201);
    expect((await ask(agent, "POST", stream, "a")).status).toBe(204);
    const large = "x".repeat(500_000);
    expect((await ask(agent, "POST", stream, large)).status).toBe(204);
    expect((await ask(agent, "GET", `${stream}?offset=-1`)).body).toBe(`a${large}`);
    const waiting = ask(agent, "GET", `${stream}?offset=now&live=long-poll`);
    await eventually(() => expect(server.tail.readers).toBe(1));
    await ask(agentForTest(), "POST", stream, "late");
    expect((await waiting).body).toBe("late");
    const socket = new WebSocket(`${url.replace("https:", "wss:")}/v1/p/pull`, { ca });
    await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
    socket.terminate();
    const grpc = RawClient.to(server.grpcPort!, "https", { ca });
    expect((await grpc.call("Publisher/ListTopics", text(1, "projects/p"))).code).toBe(0);
    for (const port of [server.port, server.grpcPort!]) {
      const plain = connectPlain(port, "127.0.0.1");
      let said = "";
      plain.on("data", (chunk) => {
        said += chunk.toString("latin1");
      });
      plain.on("error", () => {});
      plain.write("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
      await new Promise((resolve) => plain.once("close", resolve));
      expect(said).not.toContain("HTTP");
    }
  });

  it("knows a page of its own by https", async () => {
    const secret = "s".repeat(32);
    const projects = { p: { secrets: [secret] } };
    const { url } = await serverForTest("memory", { tls: FIRST, http: { lane }, projects });
    const token = await mint(secret, { project: "p", scope: "read write", ttlSeconds: 60 }, Date.now());
    const create = async (Origin: string) =>
      (await ask(agentForTest(), "PUT", `${url}/v1/p/stream/s`, "", { Cookie: `sluice_token=${token}`, Origin }))
        .status;
    expect(await create(url.replace("https:", "http:"))).toBe(403);
    expect(await create(url)).toBe(201);
  });
});

it("connections that do not complete their handshake are closed, and count until then", async () => {
  const options = { tls: FIRST, internal: { tls: { handshakeMs: 100 } }, http: { connections: 2 } };
  const { url, port } = await serverForTest("memory", options);
  const silent = [connectPlain(port, "127.0.0.1"), connectPlain(port, "127.0.0.1"), connectPlain(port, "127.0.0.1")];
  await Promise.all(silent.map((socket) => new Promise((resolve) => socket.resume().once("close", resolve))));
  await eventually(async () => expect((await ask(agentForTest(), "GET", `${url}/health`)).status).toBe(200));
});

it("a client that leaves during its handshake makes room for the next", async () => {
  const options = { tls: FIRST, internal: { tls: { handshakeMs: 600_000 } }, http: { connections: 1 } };
  const { url, port } = await serverForTest("memory", options);
  const leaving = connectPlain(port, "127.0.0.1");
  await new Promise((resolve) => leaving.once("connect", resolve));
  leaving.destroy();
  await eventually(async () => expect((await ask(agentForTest(), "GET", `${url}/health`)).status).toBe(200));
});

it("a renewed certificate is used for new connections, and one that cannot be used is not", async () => {
  const dir = dirForTest();
  const files = { cert: join(dir, "cert.pem"), key: join(dir, "key.pem") };
  const put = (from: typeof FIRST) => {
    copyFileSync(from.cert, files.cert);
    copyFileSync(from.key, files.key);
  };
  put(FIRST);
  const { lines, logger } = recorder();
  const server = await createServer({
    port: 0,
    memory: true,
    tls: files,
    grpcPort: 0,
    internal: { tls: { renewMs: 10 } },
    log: { logger },
  });
  onTestFinished(() => server.close());
  const agent = agentForTest();
  expect((await ask(agent, "GET", `${server.url}/health`)).status).toBe(200);
  const first = await fingerprint(server.port, "http/1.1");
  writeFileSync(files.cert, readFileSync(SECOND.cert));
  await eventually(() => expect(lines.join()).toContain("cannot be used; the old one stays"));
  expect(await fingerprint(server.port, "http/1.1")).toBe(first);
  put(SECOND);
  await eventually(async () => expect(await fingerprint(server.port, "http/1.1")).not.toBe(first));
  expect(await fingerprint(server.grpcPort!, "h2")).not.toBe(first);
  expect((await ask(agent, "GET", `${server.url}/health`)).status).toBe(200);
});

function recorder() {
  const lines: string[] = [];
  const write = (_fields: object, message: string) => void lines.push(message);
  return { lines, logger: { info: write, warn: write, error: write } };
}

async function fingerprint(port: RunningServer["port"], protocol: string): Promise<string> {
  const socket: TLSSocket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false, ALPNProtocols: [protocol] });
  await new Promise((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
  const { fingerprint256 } = socket.getPeerCertificate();
  socket.destroy();
  return fingerprint256;
}

it.each([
  ["--tls-cert", FIRST.cert, undefined, "tls.cert and tls.key belong together; tls.key is not set"],
  ["a missing file", "/nonexistent/cert.pem", FIRST.key, "tls.cert: the file /nonexistent/cert.pem cannot be read"],
  ["no certificate", FIRST.key, FIRST.key, `tls.cert: the file ${FIRST.key} is not a certificate in PEM`],
  ["no key", FIRST.cert, FIRST.cert, `tls.key: the file ${FIRST.cert} is not a private key in PEM`],
  ["another key", FIRST.cert, SECOND.key, `tls.key: the file ${SECOND.key} is not the key of the certificate in`],
])("a start with %s is refused with the file and its fault", async (_what, cert, key, why) => {
  const flags = ["--tls-cert", cert, ...(key === undefined ? [] : ["--tls-key", key])];
  const { code, stderr } = await sluice(["serve", "--memory", "--port", "0", ...flags]);
  expect(stderr).toContain(why);
  expect(code).toBe(2);
});

it("the command line trusts a private certificate that NODE_EXTRA_CA_CERTS names, and says what is wrong without it", async () => {
  const { url } = await serverForTest("memory", { tls: FIRST });
  const [trusting, other] = await Promise.all([
    sluiceProcess(["status", "--url", url], { env: { NODE_EXTRA_CA_CERTS: FIRST.cert } }),
    sluice(["status", "--url", url]),
  ]);
  expect(trusting.stderr).toBe("");
  expect(trusting.stdout).toMatch(/ready/);
  expect(other.code).toBe(6);
  expect(other.stderr).toContain("SELF_SIGNED");
});
