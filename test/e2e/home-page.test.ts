/** `GET /` says what this is and where to go, to a browser and to a program. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { get } from "node:http";
import { expect, it } from "vitest";
import { REPOSITORY } from "../../packages/server/src/doors/http/home-page.ts";
import { serverForTest } from "./server.ts";

const CLOSED = { host: "127.0.0.1", projects: { default: { secrets: ["a secret of at least thirty-two bytes"] } } };

it("answers a program with JSON whose links work, also without a token", async () => {
  const { url } = await serverForTest("memory", CLOSED);
  const answer = await fetch(url);
  expect([answer.status, answer.headers.get("content-type"), answer.headers.get("vary")]).toEqual([
    200,
    "application/json",
    expect.stringContaining("Accept"),
  ]);
  const about = (await answer.json()) as Record<string, string>;
  expect(about).toMatchObject({ name: "sluice", documentation: REPOSITORY });
  for (const link of ["openapi", "health", "ready"]) expect((await fetch(url + about[link])).status).toBe(200);
  const { version, repository } = JSON.parse(readFileSync("package.json", "utf8"));
  expect(about.version).toBe(version);
  expect(repository.url).toContain(REPOSITORY);
});

it("answers a browser with a page that runs no script and loads nothing", async () => {
  const { url } = await serverForTest("memory", CLOSED);
  const answer = await fetch(url, { headers: { accept: "text/html,application/xhtml+xml,*/*;q=0.8" } });
  const page = await answer.text();
  expect(answer.headers.get("content-type")).toBe("text/html; charset=utf-8");
  const style = /<style>(.*)<\/style>/s.exec(page)![1]!;
  const policy = answer.headers.get("content-security-policy");
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain(`'sha256-${createHash("sha256").update(style).digest("base64")}'`);
  expect(page).not.toMatch(/<script|src=/);
  expect([...page.matchAll(/href="(\/[^"]*)"/g)].map(([, href]) => href)).toEqual([
    "/openapi.json",
    "/health",
    "/ready",
  ]);
  const head = await fetch(url, { method: "HEAD", headers: { accept: "text/html" } });
  expect(head.headers.get("content-length")).toBe(String(Buffer.byteLength(page)));
});

it.each([true, false])("shows nothing of the Host that a client sends, whatever it is (lane: %s)", async (lane) => {
  const { url } = await serverForTest("memory", { ...CLOSED, http: { lane } });
  for (const host of ["", "a:99999", "a/b", "?", "[::"]) {
    const [status, page] = await new Promise<[number, string]>((resolve, reject) => {
      get(url, { headers: { host }, setHost: false }, async (answer) => {
        resolve([answer.statusCode!, Buffer.concat(await answer.toArray()).toString()]);
      }).on("error", reject);
    });
    expect([host, status, JSON.parse(page)]).toMatchObject([host, 200, { health: "/health" }]);
  }
});
