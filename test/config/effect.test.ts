import { describe, expect, it } from "vitest";
import { describeOnEngines, serverForTest } from "../e2e/server.ts";

const json = { "Content-Type": "application/json" };

describeOnEngines("internal.engine.pageMessages", (engine) => {
  it("bounds the page of a read, and the next read continues behind it", async () => {
    const { url } = await serverForTest(engine, { internal: { engine: { pageMessages: 3 } } });
    const stream = `${url}/v1/stream/effect-${engine}`;
    await fetch(stream, { method: "PUT", headers: json, body: "[1,2,3,4,5]" });
    const first = await fetch(`${stream}?offset=-1`);
    expect(await first.json()).toEqual([1, 2, 3]);
    const rest = await fetch(`${stream}?offset=${first.headers.get("stream-next-offset")}`);
    expect(await rest.json()).toEqual([4, 5]);
    await fetch(stream, { method: "DELETE" });
  });
});

describe("http.headerBytes", () => {
  it("bounds the headers of a request", async () => {
    const { url } = await serverForTest("memory", { http: { headerBytes: 2_048 } });
    expect((await fetch(`${url}/health`, { headers: { "X-Filling": "a".repeat(1_000) } })).status).toBe(200);
    const refused = await fetch(`${url}/health`, { headers: { "X-Filling": "a".repeat(3_000) } });
    expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining("more than 2048 bytes")]);
  });
});

describe("internal.engine.windows", () => {
  it("bounds the channels whose rate is counted: one more is refused, with the time to retry", async () => {
    const { url } = await serverForTest("memory", {
      internal: { engine: { windows: 1 } },
      channel: { windowMs: 60_000 },
    });
    const publish = (channel: string) =>
      fetch(`${url}/v1/default/channels/${channel}/publish`, {
        method: "POST",
        headers: json,
        body: JSON.stringify({ phase: "START", sequence: 0, payload: null }),
      });
    expect((await publish("a")).status).toBe(202);
    const refused = await publish("b");
    expect([refused.status, refused.headers.has("retry-after")]).toEqual([503, true]);
  });
});

describe("internal.auth.tokenChars", () => {
  it("bounds the length of a token", async () => {
    const secret = "a secret of more than 32 characters, for tests";
    const projects = { default: { secrets: [secret] } };
    const { url } = await serverForTest("memory", { internal: { auth: { tokenChars: 20 } }, projects });
    const answer = await fetch(`${url}/v1/stream/a`, { headers: { Authorization: `Bearer ${"a".repeat(21)}` } });
    expect([answer.status, ((await answer.json()) as { detail: string }).detail]).toEqual([
      401,
      expect.stringContaining("longer than 20 characters"),
    ]);
  });
});

describe("internal.channel.runs", () => {
  it("bounds how many left-out sequences a channel remembers to recognize a late repetition", async () => {
    const { url } = await serverForTest("memory", { internal: { channel: { runs: 2 } } });
    const publish = async (sequence: number) => {
      const phase = sequence === 0 ? "START" : "DELTA";
      const body = JSON.stringify({ phase, sequence, payload: "x" });
      return (await fetch(`${url}/v1/default/channels/a/publish`, { method: "POST", headers: json, body })).status;
    };
    for (const sequence of [0, 10, 20]) expect(await publish(sequence)).toBe(202);
    expect(await publish(10)).toBe(202);
    expect(await publish(0)).toBe(409);
  });
});
