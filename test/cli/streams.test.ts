/** How commands end when they are interrupted, when messages are trimmed or fit no request, and when a server redirects. */
import { createServer, type RunningServer } from "@sluice/server";
import { beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../e2e/server.ts";
import { sluice, start } from "../support/sluice-process.ts";

let server: RunningServer;

beforeAll(async () => {
  server = await createServer({ port: 0, memory: true, log: false });
  return () => server.close();
});

const here = () => ({ env: { SLUICE_URL: server.url } });

describe("append", () => {
  it("that is interrupted finishes what it has read, and says how many messages it appended and up to where", async () => {
    const url = `${server.url}/v1/stream/interrupted/a`;
    await fetch(url, { method: "PUT", headers: { "Content-Type": "application/json" }, body: "[0]" });
    const { child, ended } = start(["stream", "append", "interrupted/a", "--json"], here());
    child.stdin!.write("1\n2\n");
    await eventually(async () => expect(await (await fetch(url)).text()).toBe("[0,1,2]"));
    child.kill("SIGINT");
    const { code, stderr } = await ended;
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^sluice: interrupted; 2 messages were appended, up to \d{16}_\d{16}\n$/),
    ]);
  });
});

describe("messages that retention has trimmed", () => {
  it.each(["read", "tail"])("end `stream %s` with 3 and the offset to start from", async (command) => {
    const url = `${server.url}/v1/stream/trimmed/${command}`;
    const headers = { "Content-Type": "application/json" };
    await fetch(url, { method: "PUT", headers: { ...headers, "Stream-Max-Messages": "2" } });
    const first = await fetch(url, { method: "POST", headers, body: "[0]" });
    const from = first.headers.get("stream-next-offset")!;
    for (let n = 1; n < 30; n++) await fetch(url, { method: "POST", headers, body: `[${n}]` });
    const ended = await sluice(["stream", command, `trimmed/${command}`, "--from", from], here());
    expect(ended).toMatchObject({ code: 3, stdout: "" });
    expect(ended.stderr).toMatch(/^sluice: retention has taken messages after .*--from beginning starts there\n$/);
  });
});

describe("a line that no request to a channel can carry", () => {
  it("ends the channel with an ERROR, after the lines before it", async () => {
    const stdin = `short\n${"x".repeat(20_000)}\nlater\n`;
    const ended = await sluice(["channel", "publish", "long", "--lines"], { ...here(), stdin });
    expect([ended.code, ended.stderr]).toEqual([
      1,
      expect.stringMatching(/must fit into a request.*up to \d{16}_\d{16}\n$/),
    ]);
    const events = await (await fetch(`${server.url}/v1/default/channels/long/events`)).text();
    const phases = [...events.matchAll(/"phase":"(\w+)"/g)].map(([, phase]) => phase);
    expect(phases).toEqual(["START", "DELTA", "ERROR", "END"]);
  });
});

describe("a redirect", () => {
  it("is not followed, because the token would go along", async () => {
    const { createServer: createHttp } = await import("node:http");
    const seen: string[] = [];
    const listener = createHttp((request, response) => {
      seen.push(request.url!);
      response.writeHead(307, { Location: `${server.url}/v1/default/streams` }).end();
    }).listen(0, "127.0.0.1");
    await new Promise((resolve) => listener.once("listening", resolve));
    const url = `http://127.0.0.1:${(listener.address() as { port: number }).port}`;
    const ended = await sluice(["stream", "ls", "--url", url, "--token", "t"]);
    listener.close();
    expect(ended).toMatchObject({ code: 1, stdout: "" });
    expect(ended.stderr).toContain("the server answered 307");
    expect(seen).toHaveLength(1);
  });
});
