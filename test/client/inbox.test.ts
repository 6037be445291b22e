import { randomUUID } from "node:crypto";
import { Encoded } from "@sluice/client";
import { describe, expect, test } from "vitest";
import { describeOnEngines, eventually, serverForTest, within } from "../e2e/server.ts";
import { faultyFetch } from "./faulty-fetch.ts";
import { openClient } from "./open-client.ts";

describeOnEngines("an inbox", (engine) => {
  test("follows streams, keeps their copies once and in order, and reports its state", async () => {
    const { url } = await serverForTest(engine);
    const lost = new Set<string>();
    const { fetch } = faultyFetch(({ method, url: address }) => {
      const what = `${method} ${new URL(address).pathname.split("/")[3]}`;
      if (lost.has(what) || method === "DELETE" || method === "PUT") return undefined;
      lost.add(what);
      return { kind: "lose-answer" };
    });
    const sluice = openClient(url, { fetch });
    const [a, b] = [sluice.stream("s/a"), sluice.stream("s/b")];
    await a.append("old");
    await b.create();
    const session = sluice.inbox<{ stream: string; payload: unknown }>(randomUUID().toUpperCase());
    expect(session.id).toBe(session.id.toLowerCase());
    await session.subscribe("s/a", { format: "envelope", from: "beginning" });
    expect(await session.subscribe("s/b", { format: "envelope" })).toMatchObject({ isNewSession: false });
    await eventually(async () => expect(await copiesIn(session)).toEqual(["s/a old"]));
    const published = await b.publish("new");
    expect(published.fanout).toEqual({ mode: "inline", count: 1, successes: 1, failures: 0 });
    expect(published.offset).toBe((await b.info()).offset);
    expect(await copiesIn(session)).toEqual(["s/a old", "s/b new"]);
    const { subscriptions, expiresAt } = await session.info();
    expect(subscriptions).toMatchObject([
      { streamId: "s/a", format: "envelope" },
      { streamId: "s/b", format: "envelope" },
    ]);
    expect((await session.touch()).expiresAt).toBeGreaterThanOrEqual(expiresAt);
    await session.unsubscribe("s/b");
    await session.unsubscribe("s/b");
    expect((await b.publish("unheard")).fanout.count).toBe(0);
    expect(await copiesIn(session)).toEqual(["s/a old", "s/b new"]);
    expect([...lost].sort()).toEqual([
      "GET session",
      "GET stream",
      "HEAD stream",
      "POST publish",
      "POST session",
      "POST stream",
      "POST subscribe",
    ]);
  });

  test("that is deleted ends its readers with an error", async () => {
    const { url } = await serverForTest(engine);
    const sluice = openClient(url);
    await sluice.stream("s/a").append(1);
    const session = sluice.inbox(randomUUID());
    await session.subscribe("s/a", { from: "beginning" });
    const seen: unknown[] = [];
    const reading = (async () => {
      for await (const item of session.live()) if (item.type === "message") seen.push(item.value);
    })();
    const over = expect(within(20_000, "the end", reading)).rejects.toMatchObject({ code: "stream-not-found" });
    await eventually(() => expect(seen).toEqual([1]));
    expect(await session.delete()).toEqual({ deleted: true });
    await over;
    await expect(session.info()).rejects.toMatchObject({ code: "session-not-found" });
  });
});

async function copiesIn(session: { pages(): AsyncIterable<{ type: string; bytes?: Uint8Array }> }): Promise<string[]> {
  const copies: string[] = [];
  for await (const { bytes } of session.pages()) {
    const page = JSON.parse(Buffer.from(bytes!).toString()) as { stream: string; payload: unknown }[];
    copies.push(...page.map(({ stream, payload }) => `${stream} ${payload}`));
  }
  return copies;
}

describe("publishing", () => {
  test("keeps its place among appends, and reports the copies of its own request", async () => {
    const { url } = await serverForTest("memory");
    const { fetch, sent } = faultyFetch();
    const stream = openClient(url, { fetch }).stream<unknown>("order");
    await stream.create();
    const results = await Promise.all([
      stream.append(1),
      stream.publish(2),
      stream.publish(3),
      stream.append(4),
      stream.publish(new Encoded("[5,6]")),
    ]);
    expect(results.map((result) => "fanout" in result)).toEqual([false, true, true, false, true]);
    const posts = sent.filter(({ method }) => method === "POST");
    expect(posts.map(({ url: address, body }) => `${new URL(address).pathname.split("/")[3]} ${body}`)).toEqual([
      "stream [1]",
      "publish [2,3]",
      "stream [4]",
      "publish [5,6]",
    ]);
  });

  test("to a malformed session id is refused before any request is sent", () => {
    const sluice = openClient("http://127.0.0.1:2");
    for (const id of ["", "ada", "../x", `${randomUUID()}/`]) expect(() => sluice.inbox(id)).toThrow(TypeError);
    for (const id of ["", ".", ".."]) expect(() => sluice.channel(id)).toThrow(TypeError);
  });
});
