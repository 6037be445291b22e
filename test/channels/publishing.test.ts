/** What a channel makes of phases, sequences and ids, and of requests that it cannot read. */
import { beforeAll, describe, expect, it } from "vitest";
import { closeAfterSuite, describeOnEngines, type Fixture, openServer, serverForTest } from "../e2e/server.ts";
import { readAll } from "./reader.ts";
import { type Answer, Channel, START } from "./stage.ts";

const delta = (sequence: number, messageId?: string) => ({ phase: "DELTA", sequence, messageId });

function expectRefusal({ status, body }: Answer, wanted: number, code: string, says = ""): void {
  expect(body).toMatchObject({ status: wanted, code });
  expect(status).toBe(wanted);
  expect(body.detail).toContain(says);
}

describeOnEngines("Publishing", (engine) => {
  let fixture: Fixture;
  let made = 0;
  beforeAll(async () => {
    fixture = await openServer(engine, { channel: { rate: 1_000_000 } });
  });
  closeAfterSuite(() => fixture);
  const channel = (id = `c${made++}`) => new Channel(fixture.url, id);

  async function sequences(of: Channel, upTo: number): Promise<number[]> {
    return (await readAll(of.events, upTo)).sequences;
  }

  describe("phases", () => {
    it("nothing but START comes first", async () => {
      for (const phase of ["DELTA", "END", "ERROR"] as const) {
        expectRefusal(await channel().send(phase, 0), 409, "channel-not-started");
      }
    });

    it("START comes once; with the same sequence it is the same START", async () => {
      const a = channel();
      const offset = await a.takes({ phase: "START", sequence: 7 });
      expect(await a.takes({ phase: "START", sequence: 7 })).toBe(offset);
      expectRefusal(await a.send("START", 8), 409, "channel-started");
      expectRefusal(await a.send("START", 6), 409, "channel-sequence");
      expect(await sequences(a, 7)).toEqual([7]);
    });

    it("nothing follows END but repetitions of what was there", async () => {
      const a = channel();
      await a.takes(START, delta(1), { phase: "END", sequence: 2 });
      for (const phase of ["START", "DELTA", "END", "ERROR"] as const) {
        expectRefusal(await a.send(phase, 3), 409, "channel-ended");
      }
      expect((await a.send("END", 2)).status).toBe(202);
      expect((await a.send("DELTA", 1)).status).toBe(202);
      expect((await readAll(a.events)).sequences).toEqual([0, 1, 2]);
    });

    it("a request that starts, tells and ends is a whole channel", async () => {
      const a = channel();
      const answer = await a.sendAll([START, delta(1), { phase: "ERROR", sequence: 2 }, { phase: "END", sequence: 3 }]);
      expect(answer).toMatchObject({ status: 202, body: { sequence: 3 } });
      expect((await readAll(a.events)).messages.map(({ data }) => data.phase)).toEqual([
        "START",
        "DELTA",
        "ERROR",
        "END",
      ]);
    });
  });

  describe("sequences", () => {
    it("a repeated one is idempotent: the same answer, and nothing appended", async () => {
      const a = channel();
      await a.takes(START);
      const first = [await a.send("DELTA", 1, "x"), await a.send("DELTA", 2, "y"), await a.send("DELTA", 5, "z")];
      for (const [i, sequence] of [1, 2, 5].entries()) {
        const again = await a.send("DELTA", sequence, "else");
        expect(again).toMatchObject({ status: 202, body: first[i]!.body });
      }
      expect(first[2]!.body).toMatchObject({ sequence: 5, gap: { expected: 3 } });
      const { messages } = await readAll(a.events, 5);
      expect(messages.map(({ data }) => data.payload)).toEqual([null, "x", "y", "z"]);
    });

    it("a gap is taken, and reported in the answer and to readers", async () => {
      const a = channel();
      await a.takes(START);
      expect((await a.send("DELTA", 4)).body).toEqual({
        offset: expect.any(String),
        sequence: 4,
        gap: { expected: 1 },
      });
      expect((await a.send("DELTA", 5)).body.gap).toBeUndefined();
      const { messages } = await readAll(a.events, 5);
      expect(messages.map(({ data }) => data.gap)).toEqual([undefined, { expected: 1 }, undefined]);
    });

    it("one that was left out when its turn was is refused, because it would come out of order", async () => {
      const a = channel();
      await a.takes(START, delta(4));
      for (const sequence of [1, 2, 3]) expectRefusal(await a.send("DELTA", sequence), 409, "channel-sequence", "at 4");
      expect(await sequences(a, 4)).toEqual([0, 4]);
    });

    it("the same one with another id is another message, and refused", async () => {
      const a = channel();
      await a.takes(START, delta(1, "one"));
      expectRefusal(await a.sendAll([delta(1, "two")]), 409, "channel-sequence", "one");
      expect((await a.sendAll([delta(1)])).status).toBe(202);
    });

    it("concurrent repetitions are one message", async () => {
      const a = channel();
      await a.takes(START);
      const answers = await Promise.all(Array.from({ length: 20 }, () => a.send("DELTA", 1)));
      expect(new Set(answers.map(({ body }) => body.offset)).size).toBe(1);
      expect(await sequences(a, 1)).toEqual([0, 1]);
    });

    it("after many gaps, repetitions of recent messages are still known, and of forgotten ones refused", async () => {
      const a = channel();
      await a.takes(START);
      for (let sequence = 2; sequence <= 200; sequence += 2) await a.takes(delta(sequence));
      expect((await a.send("DELTA", 200)).body).toMatchObject({ sequence: 200, gap: { expected: 199 } });
      expect((await a.send("DELTA", 198)).status).toBe(202);
      expectRefusal(await a.send("DELTA", 2), 409, "channel-sequence");
      expect((await sequences(a, 200)).length).toBe(101);
    });
  });

  describe("message ids", () => {
    it("one that is known appends nothing, whatever sequence it comes with", async () => {
      const a = channel();
      await a.takes(START);
      const first = await a.sendAll([delta(1, "m")]);
      expect(await a.sendAll([delta(1, "m")])).toMatchObject({ status: 202, body: first.body });
      expect(await a.sendAll([delta(2, "m")])).toMatchObject({ status: 202, body: first.body });
      expect(await sequences(a, 1)).toEqual([0, 1]);
    });

    it("are known as long as their messages are kept, and forgotten after", async () => {
      const a = channel();
      await a.takes({ ...START, messageId: "m0" });
      for (let from = 1; from <= 2_000; from += 100) {
        await a.takes(...Array.from({ length: 100 }, (_, i) => delta(from + i, `m${from + i}`)));
      }
      const { messages } = await readAll(a.events, 2_000);
      const kept = messages.map(({ data }) => data.messageId as string);
      expect(kept.at(-1)).toBe("m2000");
      for (const id of [kept[0]!, kept[500]!, kept.at(-1)!]) {
        expect((await a.sendAll([delta(5_000, id)])).body).toMatchObject({ sequence: Number(id.slice(1)) });
      }
      expect((await a.sendAll([delta(2_001, "m1")])).body).toMatchObject({ sequence: 2_001 });
    });

    it("a message without one gets one that is its own", async () => {
      const a = channel();
      await a.takes(START, delta(1), delta(2, "mine"));
      const ids = (await readAll(a.events, 2)).messages.map(({ data }) => data.messageId);
      expect(new Set(ids).size).toBe(3);
      expect(ids[2]).toBe("mine");
    });
  });

  describe("several messages in one request", () => {
    it("are taken together or not at all, and the answer is that of the last", async () => {
      const a = channel();
      await a.takes(START);
      expectRefusal(await a.sendAll([delta(1), delta(2), { phase: "START", sequence: 3 }]), 409, "channel-started");
      expect(await sequences(a, 0)).toEqual([0]);
      const answer = await a.sendAll([delta(1), delta(2), delta(5), delta(6)]);
      expect(answer).toMatchObject({ status: 202, body: { sequence: 6, gap: { expected: 3 } } });
      const { messages } = await readAll(a.events, 6);
      expect(messages.at(-1)!.id).toBe(answer.body.offset);
    });

    it("of which some are repeated append the others", async () => {
      const a = channel();
      await a.takes(START, delta(1), delta(2));
      await a.takes(delta(1), delta(2), delta(3), delta(4));
      expect(await sequences(a, 4)).toEqual([0, 1, 2, 3, 4]);
    });

    it("with the same sequence twice are one message", async () => {
      const a = channel();
      await a.takes(START, delta(1), delta(1), delta(2));
      expect(await sequences(a, 2)).toEqual([0, 1, 2]);
    });
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

  it("is refused with what is wrong, and nothing is taken", async () => {
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
    const deep = `{"phase":"DELTA","sequence":99,"payload":${"[".repeat(7_000)}${"]".repeat(7_000)}}`;
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

  it("is 404 at another address and 405 with another method", async () => {
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
  it("are those of the channel, then of the project, then the general ones", async () => {
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
