import { type CatchUp, type LiveSession, type SessionOptions, Sluice, type SluiceOptions } from "@sluice/client";
import { describe, expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { mint } from "../../packages/server/src/auth/mint.ts";
import { eventually, type Fixture, serverForTest } from "../e2e/server.ts";
import { TcpProxy } from "../support/tcp-proxy.ts";
import { noUnhandledRejections, numbersTo, openClient, QUICK } from "./open-client.ts";

const OVER = {
  "a WebSocket": {
    WebSocket,
    transport: "websocket",
  },
  "server-sent events": { transport: "sse" },
} as const;

async function openTab(url: string, options: SessionOptions = {}, client: Partial<SluiceOptions> = {}) {
  const sluice = openClient(url, client);
  const tab = await sluice.session(options);
  onTestFinished(() => sluice.close());
  const errors: string[] = [];
  tab.on("error", ({ code }) => errors.push(code));
  return { sluice, tab, errors };
}

/** Follows a stream, and keeps what comes. */
function heardOf(tab: LiveSession, path: string, from?: string) {
  const values: unknown[] = [];
  const catchUps: CatchUp[] = [];
  const ends: string[] = [];
  const subscription = tab.subscribe(path, ({ value }) => void values.push(value), {
    from,
    onCatchUp: (how) => catchUps.push(how),
    onEnd: ({ reason }) => ends.push(reason),
  });
  return { values, catchUps, ends, subscription };
}

function untilLive(tab: LiveSession): Promise<void> {
  return eventually(() => expect(tab.status).toBe("live"));
}

describe.each(Object.entries(OVER))("over %s, a live session", (_, over) => {
  test("gets every message once and in order, over a cut connection, and says how it caught up", async () => {
    noUnhandledRejections();
    const { url, port } = await serverForTest("memory");
    const wire = await TcpProxy.open(0, port);
    onTestFinished(() => wire.close());
    const doc = openClient(url).stream<number>("doc/9");
    await doc.append(0);
    const { tab, errors } = await openTab(`http://127.0.0.1:${wire.port}`, over);
    const { values, catchUps } = heardOf(tab, "doc/9", "beginning");
    await untilLive(tab);
    for (const n of [1, 2]) await doc.append(n);
    await eventually(() => expect(values).toEqual([0, 1, 2]));
    wire.cut();
    for (const n of [3, 4]) await doc.append(n);
    wire.heal();
    await doc.append(5);
    await eventually(() => expect(values).toEqual(numbersTo(6)));
    await eventually(() => expect(catchUps.map(({ outcome }) => outcome)).toEqual(["complete", "complete"]));
    expect(errors).toEqual([]);
  });

  test("tells of what retention took while it was away", async () => {
    const { url, port } = await serverForTest("memory");
    const wire = await TcpProxy.open(0, port);
    onTestFinished(() => wire.close());
    const doc = openClient(url).stream<number>("doc/9");
    await doc.create({ maxMessages: 1 });
    const { tab } = await openTab(`http://127.0.0.1:${wire.port}`, over);
    const { values, catchUps } = heardOf(tab, "doc/9");
    await untilLive(tab);
    wire.cut();
    for (const n of numbersTo(20)) await doc.append(n);
    wire.heal();
    await eventually(() => expect(values.at(-1)).toBe(19));
    expect(values.length).toBeLessThan(20);
    const { outcome, gaps } = catchUps.at(-1)!;
    expect([outcome, gaps.map(({ reason }) => reason)]).toEqual(["gap", ["trimmed"]]);
  });

  test("reads a message that is too large to push, in its place", async () => {
    const { url } = await serverForTest("memory", { live: { notifyBytes: 1_000 } });
    const doc = openClient(url).stream<string>("doc/9");
    await doc.create();
    const { tab } = await openTab(url, over);
    const { values } = heardOf(tab, "doc/9");
    await untilLive(tab);
    const texts = ["small", "large".repeat(1_000), "small again"];
    for (const text of texts) await doc.append(text);
    await eventually(() => expect(values).toEqual(texts));
  });

  test("shows the members of a stream, with the state that each has set", async () => {
    const { url } = await serverForTest("memory");
    await openClient(url).stream("doc/9").create();
    const [one, two] = [await openTab(url, over), await openTab(url, over)];
    const [first, second] = [one.tab.presence("doc/9", { state: "a" }), two.tab.presence("doc/9", { state: "b" })];
    const states = () => first.members.map(({ state }) => state).sort();
    await eventually(() => expect(states()).toEqual(["a", "b"]));
    second.setState({ cursor: 17 });
    await eventually(() => expect(states()).toEqual([{ cursor: 17 }, "a"]));
    second.leave();
    await eventually(() => expect(states()).toEqual(["a"]));
  });
});

describe("a live session", () => {
  /** The storage of a tab, which a reload finds again. */
  function tabStorage() {
    const items = new Map<string, string>();
    return {
      getItem: (key: string) => items.get(key) ?? null,
      setItem: (key: string, value: string) => void items.set(key, value),
    };
  }

  async function withDoc(fixture: Fixture) {
    const doc = openClient(fixture.url).stream<number>("doc/9");
    await doc.create();
    return doc;
  }

  test("survives a reload: the next page has its id, and goes on where the page before stopped", async () => {
    const fixture = await serverForTest("memory");
    const doc = await withDoc(fixture);
    const storage = tabStorage();
    const before = await openTab(fixture.url, { storage });
    const { values } = heardOf(before.tab, "doc/9");
    await untilLive(before.tab);
    await doc.append(1);
    await eventually(() => expect(values).toEqual([1]));
    const { id } = before.tab;
    await before.sluice.close();
    await doc.append(2);
    const after = await openTab(fixture.url, { storage });
    const heard = heardOf(after.tab, "doc/9");
    await eventually(() => expect(heard.values).toEqual([2]));
    expect(after.tab.id).toBe(id);
  });

  test("is one for all callers of a client, until it is closed; names tell several apart", async () => {
    const fixture = await serverForTest("memory");
    const { sluice, tab } = await openTab(fixture.url);
    expect(await sluice.session()).toBe(tab);
    const named = await sluice.session({ name: "second" });
    expect(named.id).not.toBe(tab.id);
    await tab.close();
    expect(await sluice.session()).not.toBe(tab);
    await sluice.close();
    expect(named.status).toBe("offline");
    await expect(sluice.session()).rejects.toMatchObject({ code: "closed" });
  });

  test("takes server-sent events where the network lets no WebSocket through", async () => {
    const fixture = await serverForTest("memory");
    const doc = await withDoc(fixture);
    let sockets = 0;
    class Blocked extends WebSocket {
      constructor() {
        sockets++;
        super("ws://127.0.0.1:1/");
      }
    }
    const { tab } = await openTab(fixture.url, { WebSocket: Blocked });
    const { values } = heardOf(tab, "doc/9");
    await untilLive(tab);
    await doc.append(1);
    await eventually(() => expect(values).toEqual([1]));
    expect(sockets).toBe(2);
  });

  test("ends a subscription when its stream is closed or deleted, or when there is none", async () => {
    const fixture = await serverForTest("memory");
    const { sluice, tab, errors } = await openTab(fixture.url);
    for (const path of ["closed", "deleted"]) await sluice.stream(path).create();
    const heard = ["closed", "deleted", "missing"].map((path) => heardOf(tab, path));
    await eventually(() => expect(heard[2]!.ends).toEqual(["refused"]));
    await untilLive(tab);
    await sluice.stream("closed").close({ message: "last" });
    await sluice.stream("deleted").delete();
    await eventually(() => expect(heard.map(({ ends }) => ends)).toEqual([["closed"], ["gone"], ["refused"]]));
    expect([heard[0]!.values, errors]).toEqual([["last"], ["stream-not-found"]]);
  });

  test("renews its token: tokens that live a second carry it over several connections", async () => {
    const secret = "a secret that only this test and its server know";
    const { url } = await serverForTest("memory", {
      projects: { p: { secrets: [secret] } },
      auth: { clockSkewSeconds: 0 },
      internal: { live: { checkMs: 50, spreadMs: 1 } },
    });
    const token = () => mint(secret, { scope: "read write", ttlSeconds: 1 }, Date.now());
    const client = { project: "p", token };
    const { tab, sluice, errors } = await openTab(url, OVER["a WebSocket"], client);
    const doc = sluice.stream<number>("doc/9");
    await doc.create();
    const { values, catchUps } = heardOf(tab, "doc/9");
    await untilLive(tab);
    let sent = 0;
    await eventually(async () => {
      await doc.append(sent++);
      expect(catchUps.length).toBeGreaterThan(2);
    });
    await eventually(() => expect(values).toEqual(numbersTo(sent)));
    expect(errors).toEqual([]);
  });

  test("rejects where the server does not answer or refuses, and may be asked for again", async () => {
    noUnhandledRejections();
    const fixture = await serverForTest("memory");
    let isDown = true;
    const failing: typeof fetch = (input, init) =>
      isDown ? Promise.reject(new TypeError("down")) : fetch(input, init);
    const sluice = new Sluice({ url: fixture.url, fetch: failing, retries: { ...QUICK, giveUpMs: 50 } });
    onTestFinished(() => sluice.close());
    await expect(sluice.session()).rejects.toMatchObject({ code: "unreachable" });
    isDown = false;
    await untilLive(await sluice.session());
    expect(() => sluice.session({ heartbeatMs: 1 })).toThrow(TypeError);
  });
});
