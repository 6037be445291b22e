import { createServer, mint } from "@sluice/server";
import { expect, it } from "vitest";
import { expectProblem } from "../e2e/problem.ts";
import { serverForTest } from "../e2e/server.ts";
import { SECRET } from "./app.ts";

const projects = { p: { secrets: [SECRET] } };
const TEXT = { "Content-Type": "text/plain" };
const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
const token = (scope: string, ttlSeconds = 600) => mint(SECRET, { scope, ttlSeconds }, Date.now());

it("a running server requires tokens, and accepts those of its projects", async () => {
  const { url } = await serverForTest("disk", { projects });
  const stream = `${url}/v1/p/stream/a`;
  const writer = bearer(await token("write"));
  await expectProblem(await fetch(stream, { method: "PUT", headers: TEXT }), 401, "unauthenticated");
  expect((await fetch(stream, { method: "PUT", headers: { ...TEXT, ...writer } })).status).toBe(201);
  for (let i = 0; i < 5; i++) {
    expect((await fetch(stream, { method: "POST", body: `${i}`, headers: { ...TEXT, ...writer } })).status).toBe(204);
  }
  await expectProblem(await fetch(stream, { headers: writer }), 403, "forbidden");
  const read = await fetch(stream, { headers: bearer(await token("read")) });
  expect(await read.text()).toBe("01234");
  for (const path of ["/health", "/ready"]) expect((await fetch(url + path)).status).toBe(200);
  await expectProblem(await fetch(`${url}/metrics`), 401, "unauthenticated");
  await expectProblem(await fetch(`${url}/metrics`, { headers: writer }), 403, "forbidden");
});

it("a refused request is answered without waiting for its body, and the connection stays usable", async () => {
  const { url } = await serverForTest("memory", { projects });
  const body = "x".repeat(1_000_000);
  for (let i = 0; i < 3; i++) {
    await expectProblem(
      await fetch(`${url}/v1/p/stream/a`, { method: "POST", body, headers: TEXT }),
      401,
      "unauthenticated",
    );
  }
});

it("several servers in one process keep their keys apart", async () => {
  const other = "the secret of the other server, as long as it must be";
  const [one, two] = [
    await serverForTest("memory", { projects }),
    await serverForTest("memory", { projects: { p: { secrets: [other] } } }),
  ];
  const headers = bearer(await token("read"));
  expect((await fetch(`${one.url}/v1/p/streams`, { headers })).status).toBe(200);
  expect((await fetch(`${two.url}/v1/p/streams`, { headers })).status).toBe(401);
});

it("a server does not start with unusable keys, and its error does not repeat them", async () => {
  const start = (wrong: object) => createServer({ port: 0, memory: true, projects: wrong as never });
  for (const wrong of [{ secrets: ["hunter2", ""] }, { secrets: ["hunter2"] }, { jwks: "not-a-url-but-hunter2" }]) {
    const message = await start({ p: wrong }).then(String, String);
    expect(message).toContain("projects.p.");
    if (!("jwks" in wrong)) expect(message).not.toContain("hunter2");
  }
});
