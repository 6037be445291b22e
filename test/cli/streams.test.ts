/** Where reading starts; and how commands end when they are interrupted, when messages are trimmed or fit no request, and when a server redirects. */
import { createServer, type RunningServer } from "@sluice/server";
import { beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../e2e/server.ts";
import { type Ended, sluice, start } from "../support/sluice-process.ts";

let server: RunningServer;

beforeAll(async () => {
  server = await createServer({ port: 0, memory: true, log: false });
  return () => server.close();
});

const here = () => ({ env: { SLUICE_URL: server.url } });

async function ok(args: readonly string[], stdin = ""): Promise<Ended> {
  const ended = await sluice(args, { ...here(), stdin });
  expect(ended.code, `sluice ${args.join(" ")}: ${ended.stderr}`).toBe(0);
  return ended;
}

it("read and tail start at a time, at the last messages, and with a topic filter in many streams", async () => {
  for (const path of ["back/a", "back/b"]) await ok(["stream", "create", path, "--type", "application/json"]);
  await ok(["stream", "append", "back/a", "--json"], "1\n2\n3\n");
  expect((await ok(["stream", "read", "back/a", "--last", "2", "--json"])).stdout).toBe("2\n3\n");
  expect((await ok(["stream", "read", "back/a", "--since", "10m", "--json"])).stdout).toBe("1\n2\n3\n");
  expect((await ok(["stream", "tail", "back/a", "--last", "1", "--json", "--limit", "1"])).stdout).toBe("3\n");
  for (const wrong of [
    ["--last", "0"],
    ["--since", "soon"],
    ["--last", "1", "--from", "now"],
  ]) {
    expect(await sluice(["stream", "read", "back/a", ...wrong], here())).toMatchObject({
      code: 2,
    });
  }
  const tail = start(["stream", "tail", "back/+", "--from", "beginning", "--limit", "5"], here());
  await eventually(() => expect(tail.said.stdout.match(/^back\/a {2}\d$/gm)).toHaveLength(3));
  await ok(["stream", "append", "back/b", "4"]);
  // A stream that is made later is followed from its beginning.
  await ok(["stream", "create", "back/c", "--type", "application/json"]);
  await ok(["stream", "append", "back/c", "5"]);
  const { code, stdout } = await tail.ended;
  expect([code, stdout.split("\n").slice(3).join()]).toEqual([0, "back/b  4,back/c  5,"]);
});

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
