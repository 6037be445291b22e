/** Publishing through HTTP: one row for each refusal of the rules, which `channels/rules.test.ts` covers; and malformed requests. */
import { beforeAll, describe, expect, it } from "vitest";
import { closeAfterSuite, type Fixture, openServer, serverForTest } from "../e2e/server.ts";
import { readAll } from "./reader.ts";
import { type Answer, Channel, START } from "./stage.ts";

const delta = (sequence: number, messageId?: string) => ({ phase: "DELTA", sequence, messageId });

function expectRefusal({ status, body }: Answer, wanted: number, code: string, says = ""): void {
  expect(body).toMatchObject({ status: wanted, code });
  expect(status).toBe(wanted);
  expect(body.detail).toContain(says);
}

describe("Publishing", () => {
  let fixture: Fixture;
  let made = 0;
  beforeAll(async () => {
    fixture = await openServer("memory", { channel: { rate: 1_000_000 } });
  });
  closeAfterSuite(() => fixture);
  const channel = (id = `c${made++}`) => new Channel(fixture.url, id);

  async function sequences(of: Channel, upTo: number): Promise<number[]> {
    return (await readAll(of.events, upTo)).sequences;
  }

  it("a channel that was not started takes no other phase than START", async () => {
    for (const phase of ["DELTA", "END", "ERROR"] as const) {
      expectRefusal(await channel().send(phase, 0), 409, "channel-not-started");
    }
  });

  it("a START with the same sequence is the same START, and any other START is refused", async () => {
    const a = channel();
    const offset = await a.takes({ phase: "START", sequence: 7 });
    expect(await a.takes({ phase: "START", sequence: 7 })).toBe(offset);
    expectRefusal(await a.send("START", 8), 409, "channel-started");
    expectRefusal(await a.send("START", 6), 409, "channel-sequence");
    expect(await sequences(a, 7)).toEqual([7]);
  });

  it("after END only repetitions of what was published are taken", async () => {
    const a = channel();
    await a.takes(START, delta(1), { phase: "END", sequence: 2 });
    for (const phase of ["START", "DELTA", "END", "ERROR"] as const) {
      expectRefusal(await a.send(phase, 3), 409, "channel-ended");
    }
    expect((await a.send("END", 2)).status).toBe(202);
    expect((await a.send("DELTA", 1)).status).toBe(202);
    expect((await readAll(a.events)).sequences).toEqual([0, 1, 2]);
  });

  it("a repeated publish gets the same answer, its gap included, and appends nothing", async () => {
    const a = channel();
    await a.takes(START);
    const first = await a.send("DELTA", 4, "x");
    expect(first.body).toEqual({ offset: expect.any(String), sequence: 4, gap: { expected: 1 } });
    expect(await a.send("DELTA", 4, "x")).toMatchObject({ status: 202, body: first.body });
    expect((await a.send("DELTA", 5)).body.gap).toBeUndefined();
    const { messages } = await readAll(a.events, 5);
    expect(messages.map(({ data }) => data.gap)).toEqual([undefined, { expected: 1 }, undefined]);
    expect(messages[1]!.data.payload).toBe("x");
  });

  it("a sequence that was left out is refused, and the refusal names the last one taken", async () => {
    const a = channel();
    await a.takes(START, delta(4));
    expectRefusal(await a.send("DELTA", 3), 409, "channel-sequence", "at 4");
  });

  it("a different message under a stored sequence is refused, and the refusal says what to do", async () => {
    const a = channel();
    await a.takes(START, delta(1));
    expectRefusal(await a.send("DELTA", 1, "else"), 409, "channel-sequence", "a new channel id");
    expectRefusal(await a.sendAll([START, { ...delta(1), payload: "else" }, delta(2)]), 409, "channel-sequence");
    await a.takes({ phase: "END", sequence: 2 });
    expectRefusal(await a.sendAll([START, { ...delta(1), payload: "B" }]), 409, "channel-ended", "a new channel id");
    expect(await sequences(a, 2)).toEqual([0, 1, 2]);
  });

  it("a sequence under another id is refused", async () => {
    const a = channel();
    await a.takes(START, delta(1, "one"));
    expectRefusal(await a.sendAll([delta(1, "two")]), 409, "channel-sequence", "sequence 1");
    expect((await a.sendAll([delta(2, "one")])).body.sequence).toBe(1);
  });

  it("concurrent repetitions are one message", async () => {
    const a = channel();
    await a.takes(START);
    const answers = await Promise.all(Array.from({ length: 20 }, () => a.send("DELTA", 1)));
    expect(new Set(answers.map(({ body }) => body.offset)).size).toBe(1);
    expect(await sequences(a, 1)).toEqual([0, 1]);
  });

  it("the messages of one request are taken together or not at all, and the answer is that of the last", async () => {
    const a = channel();
    await a.takes(START);
    expectRefusal(await a.sendAll([delta(1), delta(2), { phase: "START", sequence: 3 }]), 409, "channel-started");
    expect(await sequences(a, 0)).toEqual([0]);
    const answer = await a.sendAll([delta(1), delta(2), delta(5), delta(6)]);
    expect(answer).toMatchObject({ status: 202, body: { sequence: 6, gap: { expected: 3 } } });
    const { messages } = await readAll(a.events, 6);
    expect(messages.at(-1)!.id).toBe(answer.body.offset);
  });
});

describe("A publish that cannot be read", () => {
  const malformed: readonly [string, string][] = [
    ["", "must be JSON"],
    ["{", "must be JSON"],
    ["[]", "the body must be a JSON object"],
    ["null", "the body must be a JSON object"],
    ["{}", "phase must be START, DELTA, END or ERROR"],
    ['{"phase":"STOP","sequence":0}', "phase must be START"],
    ['{"phase":"START"}', "sequence must be a whole number"],
    ['{"phase":"START","sequence":-1}', "sequence must be a whole number"],
    ['{"phase":"START","sequence":0.5}', "sequence must be a whole number"],
    ['{"phase":"START","sequence":9007199254740992}', "sequence must be a whole number"],
    ['{"phase":"START","sequence":"0"}', "sequence must be a whole number"],
    ['{"phase":"START","sequence":0,"messageId":""}', "messageId must be a string of 1 to 256 bytes"],
    [`{"phase":"START","sequence":0,"messageId":"${"ä".repeat(129)}"}`, "messageId must be"],
    ['{"phase":"START","sequence":0,"extra":1}', "extra is not a field"],
    ['{"messages":[]}', "messages must have at least one"],
    ['{"messages":{}}', "messages must be an array"],
    ['{"messages":[{"phase":"START","sequence":0},{"phase":"X","sequence":1}]}', "messages[1].phase must be"],
    ['{"messages":[{"phase":"START","sequence":0}],"phase":"START"}', "phase is not a field"],
  ];

  it("a malformed publish is refused with what is wrong, and nothing is taken", async () => {
    const { url } = await serverForTest("memory", { channel: { rate: 1_000 } });
    const a = new Channel(url, "a");
    for (const [body, says] of malformed) expectRefusal(await a.post(body), 400, "bad-body", says);
    expect((await fetch(a.events)).status).toBe(404);
  });

  it("any JSON is a payload, and comes back as it was", async () => {
    const { url } = await serverForTest("memory");
    const a = new Channel(url, "a");
    const payloads = [null, 0, false, "", "line\nbreak\r\u2028", { nested: [{ "": null }] }, [], `${"[".repeat(50)}`];
    await a.takes(...payloads.map((payload, i) => ({ phase: i === 0 ? "START" : "DELTA", sequence: i, payload })));
    const { messages } = await readAll(a.events, payloads.length - 1);
    expect(messages.map(({ data }) => data.payload)).toEqual(payloads);
    const deep = `{"phase":"DELTA","sequence":99,"payload":${"[".repeat(900)}${"]".repeat(900)}}`;
    expect((await a.post(deep)).status).toBe(202);
    const exact = '{"phase": "DELTA", "sequence": 100,\n "payload":\n {"n": 12345678901234567890,\r\n "m": 1.0}}';
    expect((await a.post(exact)).status).toBe(202);
    expect((await a.send("END", 101)).status).toBe(202);
    const text = await (await fetch(a.events)).text();
    expect(text).toContain('"payload":{"n": 12345678901234567890,  "m": 1.0}}\n\n');
  });

  it("a channel's id is 1 to 256 bytes of anything but control characters", async () => {
    const { url } = await serverForTest("memory");
    for (const id of ["a", "a/b", "ü ?#%", "x".repeat(256), "+", "#", "__proto__"]) {
      const a = new Channel(url, id);
      await a.takes(START);
      expect((await readAll(a.events, 0)).messages[0]!.data.channelId).toBe(id);
    }
    const refused = ["x".repeat(257), "ü".repeat(129), "a\u0000b", "a\nb"];
    for (const id of refused)
      expectRefusal(await new Channel(url, id).sendAll([START]), 400, "bad-request", "channel id");
    for (const path of ["%zz/publish", "/publish"]) {
      const response = await fetch(`${url}/v1/default/channels/${path}`, { method: "POST", body: "{}" });
      expect(response.status).toBe(400);
    }
  });

  it("another address is 404, and another method is 405", async () => {
    const { url } = await serverForTest("memory");
    for (const path of ["a", "a/", "a/b", "a/publish/x", "a/b/publish"]) {
      expect((await fetch(`${url}/v1/default/channels/${path}`, { method: "POST", body: "{}" })).status).toBe(404);
    }
    const publish = await fetch(`${url}/v1/default/channels/a/publish`);
    expect([publish.status, publish.headers.get("allow")]).toEqual([405, "POST, OPTIONS"]);
    const events = await fetch(`${url}/v1/default/channels/a/events`, { method: "POST" });
    expect([events.status, events.headers.get("allow")]).toEqual([405, "GET, OPTIONS"]);
  });

  it("projects do not see each other's channels, and default may be left out", async () => {
    const { url } = await serverForTest("memory");
    await new Channel(url, "a").takes(START);
    expect((await fetch(new Channel(url, "a", "other").events)).status).toBe(404);
    const short = await fetch(`${url}/v1/channels/a/events`);
    expect(short.status).toBe(200);
    await short.body!.cancel();
  });
});

describe("Limits", () => {
  it("the limits of a channel are those of its filter, else of its project, else the general ones", async () => {
    const long = { windowMs: 60_000 };
    const { url } = await serverForTest("memory", {
      channel: { rate: 1, bodyBytes: 100, ...long },
      projects: {
        wide: { channel: { rate: 2, bodyBytes: 200, filters: { "vip/#": { rate: 3 }, "vip/+/x": { bodyBytes: 60 } } } },
      },
      auth: { off: true },
    });
    const taken = async (id: string, project: string) => {
      const a = new Channel(url, id, project);
      let count = 0;
      while ((await a.sendAll([START])).status === 202) count++;
      const large = JSON.stringify({ ...START, payload: "x".repeat(1_000) });
      return [count, Number(/(\d+) bytes/.exec((await a.post(large)).body.detail)![1])];
    };
    expect(await taken("a", "default")).toEqual([1, 100]);
    expect(await taken("a", "wide")).toEqual([2, 200]);
    expect(await taken("vip", "wide")).toEqual([3, 200]);
    expect(await taken("vip/a/x", "wide")).toEqual([3, 60]);
  });
});
