/**
 * `GET /v1/{project}/streams`: by prefix, by topic filter, page by page, each stream once, and never what is reserved. That an
 * engine lists in order and page by page is in `test/contract`, so one engine is enough here.
 */
import type { ListedStream } from "@sluice/protocol";
import { beforeAll, describe, expect, it } from "vitest";
import { appInTime } from "./app-in-time.ts";
import { expectProblem } from "./problem.ts";
import { createAll } from "./raw-http.ts";
import { append, appended, closeAfterSuite, create, createdStream, type Fixture, openServer } from "./server.ts";
import { openStage } from "./stage.ts";

interface Page {
  readonly streams: readonly ListedStream[];
  readonly next?: string;
}

interface Query {
  readonly prefix?: string;
  readonly filter?: string;
  readonly limit?: string;
  readonly after?: string;
}

async function list(url: string, query: Query = {}, project = "default"): Promise<Page> {
  const response = await fetch(`${url}/v1/${project}/streams?${new URLSearchParams({ ...query })}`);
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe("application/json");
  return (await response.json()) as Page;
}

async function paths(url: string, query: Query = {}, project = "default"): Promise<string[]> {
  return (await list(url, query, project)).streams.map(({ path }) => path);
}

/** Follows `next` to the end. */
async function allPaths(url: string, query: Query, project = "default"): Promise<string[]> {
  const found: string[] = [];
  for (let after: string | undefined = ""; after !== undefined; ) {
    const page = await list(url, { ...query, ...(after === "" ? {} : { after }) }, project);
    expect(page.streams.length).toBeLessThanOrEqual(Number(query.limit ?? 100));
    found.push(...page.streams.map(({ path }) => path));
    after = page.next;
  }
  return found;
}

const createIn = ({ port }: Fixture, project: string, names: readonly string[]) =>
  createAll(
    port,
    names.map((name) => `/v1/${project}/stream/${encodeURIComponent(name)}`),
  );

const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

describe("a listing", () => {
  let fixture: Fixture;
  const many = Array.from({ length: 2_500 }, (_, i) => `t${i % 7}/item-${i}`);
  const TOPICS = [
    "a",
    "a/b",
    "a/b/c",
    "a/c",
    "a/c/",
    "ab",
    "ab/b",
    "b",
    "/",
    "/b",
    "a//b",
    "ä/b",
    "\u{1f30a}/b",
    "\uff5e/b",
  ];

  beforeAll(async () => {
    fixture = await openServer("memory");
    await createIn(fixture, "many", many);
    await createIn(fixture, "filters", TOPICS);
  });
  closeAfterSuite(() => fixture);

  it.each([1_000, 100, 999])(
    "pages through 2,500 streams, each exactly once, in order, %i at a time",
    async (limit) => {
      const found = await allPaths(fixture.url, { limit: String(limit) }, "many");
      expect(found).toEqual([...many].sort(byBytes));
    },
  );

  it("pages through the streams that a prefix or a filter matches", async () => {
    const expected = many.filter((name) => name.startsWith("t3/")).sort(byBytes);
    for (const query of [{ prefix: "t3/" }, { filter: "t3/+" }, { filter: "t3/#" }, { prefix: "t", filter: "t3/+" }]) {
      expect(await allPaths(fixture.url, { ...query, limit: "50" }, "many")).toEqual(expected);
    }
    const endsWith7 = many.filter((name) => name.endsWith("/item-7"));
    for (const name of endsWith7) {
      expect(await allPaths(fixture.url, { filter: "+/item-7", limit: "1" }, "many")).toContain(name);
    }
  });

  it("goes on after a stream that was deleted between two pages", async () => {
    const names = ["gone/1", "gone/2", "gone/3"];
    await createIn(fixture, "going", names);
    const first = await list(fixture.url, { limit: "2" }, "going");
    expect(first.next).toBe("gone/2");
    await fetch(`${fixture.url}/v1/going/stream/gone/2`, { method: "DELETE" });
    expect(await paths(fixture.url, { limit: "2", after: first.next! }, "going")).toEqual(["gone/3"]);
    expect(await paths(fixture.url, {}, "going")).toEqual(["gone/1", "gone/3"]);
  });

  it.each<[string, string[]]>([
    ["a", ["a"]],
    ["+", ["a", "ab", "b"]],
    ["#", TOPICS],
    ["a/#", ["a", "a/b", "a/b/c", "a/c", "a/c/", "a//b"]],
    ["a/+", ["a/b", "a/c"]],
    ["a/+/+", ["a/b/c", "a/c/", "a//b"]],
    ["a/+/#", ["a/b", "a/b/c", "a/c", "a/c/", "a//b"]],
    ["+/b", ["a/b", "ab/b", "/b", "ä/b", "\u{1f30a}/b", "\uff5e/b"]],
    ["+/b/#", ["a/b", "a/b/c", "ab/b", "/b", "ä/b", "\u{1f30a}/b", "\uff5e/b"]],
    ["/+", ["/", "/b"]],
    ["nothing/#", []],
  ])("matches the topic filter %s as MQTT would", async (filter, expected) => {
    expect(await paths(fixture.url, { filter }, "filters")).toEqual([...expected].sort(byBytes));
  });

  it("takes a prefix literally", async () => {
    expect(await paths(fixture.url, { prefix: "a/" }, "filters")).toEqual(["a//b", "a/b", "a/b/c", "a/c", "a/c/"]);
    expect(await paths(fixture.url, { prefix: "a/+" }, "filters")).toEqual([]);
    expect(await paths(fixture.url, { prefix: "" }, "filters")).toEqual([...TOPICS].sort(byBytes));
  });

  it.each([
    ["limit", "0"],
    ["limit", "1001"],
    ["limit", "-1"],
    ["limit", "1e2"],
    ["limit", " 5"],
    ["limit", ""],
    ["filter", ""],
    ["filter", "a/#/b"],
    ["filter", "a+/b"],
    ["filter", "#a"],
  ])("refuses a wrong parameter by its name: %s=%j", async (name, value) => {
    const response = await fetch(`${fixture.url}/v1/filters/streams?${new URLSearchParams({ [name]: value })}`);
    expect((await expectProblem(response, 400, "bad-query")).detail).toContain(`query parameter ${name}`);
  });

  it.each(["limit", "filter", "prefix", "after"])("refuses the parameter %s when it comes twice", async (name) => {
    const response = await fetch(`${fixture.url}/v1/filters/streams?${name}=1&${name}=1`);
    expect((await expectProblem(response, 400, "bad-query")).detail).toContain(`query parameter ${name}`);
  });

  it("is empty for a project without streams", async () => {
    expect(await list(fixture.url, {}, "empty")).toEqual({ streams: [] });
  });
});

describe("an entry of a listing", () => {
  it("tells type, tail, size, closure and times of a stream", async () => {
    const { url: base, now, pass } = await openStage("memory");
    const createdAt = now();
    const expiresAt = createdAt + 3_600_000;
    await createdStream({ url: base }, "plain", "text/plain; charset=utf-8");
    const url = await createdStream({ url: base }, "full", "application/json", {
      "Stream-Expires-At": new Date(expiresAt).toISOString(),
    });
    pass(1_000);
    await appended(url, "application/json", "[1,22,333]");
    pass(1_000);
    const last = await append(url, "application/json", "4", { "Stream-Closed": "true" });
    await createdStream({ url: base }, "ttl", "text/plain", { "Stream-TTL": "100" });

    const [full, plain, ttl] = (await list(base)).streams;
    expect(full).toEqual({
      path: "full",
      contentType: "application/json",
      nextOffset: last.headers.get("stream-next-offset"),
      messages: 4,
      bytes: 7,
      closed: true,
      createdAt,
      lastAppendAt: createdAt + 2_000,
      expiresAt,
    });
    expect(plain).toMatchObject({ contentType: "text/plain; charset=utf-8", messages: 0, bytes: 0, closed: false });
    expect(plain).toMatchObject({ createdAt, lastAppendAt: null, expiresAt: null });
    // A TTL slides on use and may end a tenth late, never early.
    expect(ttl).toMatchObject({ createdAt: createdAt + 2_000, expiresAt: createdAt + 2_000 + 110_000 });
  });

  it("counts the messages that a reader of a fork gets, its ancestors' included", async () => {
    const { url } = await openStage("memory");
    await createdStream({ url }, "source", "text/plain");
    const offsets = [];
    for (const text of ["a", "b", "c"]) offsets.push(await appended(`${url}/v1/stream/source`, "text/plain", text));
    const fork = (of: string, offset: string) => ({
      "Stream-Forked-From": `/v1/stream/${of}`,
      "Stream-Fork-Offset": offset,
    });
    await createdStream({ url }, "fork", "text/plain", fork("source", offsets[1]!));
    const own = await appended(`${url}/v1/stream/fork`, "text/plain", "d");
    await createdStream({ url }, "grandchild", "text/plain", fork("fork", own));
    await createdStream({ url }, "early", "text/plain", fork("fork", offsets[0]!));
    const counts = (await list(url)).streams.map(({ path, messages }) => [path, messages]);
    expect(Object.fromEntries(counts)).toEqual({ source: 3, fork: 3, grandchild: 3, early: 1 });
  });

  it("appears with its stream and goes with it, by deletion, by expiry, and when only forks keep it", async () => {
    const { url, now, pass } = await openStage("memory");
    const soon = { "Stream-Expires-At": new Date(now() + 2_000).toISOString() };
    await createdStream({ url }, "brief", "text/plain", soon);
    const deleted = await createdStream({ url }, "deleted", "text/plain");
    const source = await createdStream({ url }, "source", "text/plain");
    await createdStream({ url }, "fork", "text/plain", { "Stream-Forked-From": "/v1/stream/source" });
    expect(await paths(url)).toEqual(["brief", "deleted", "fork", "source"]);
    for (const gone of [deleted, source]) expect((await fetch(gone, { method: "DELETE" })).status).toBe(204);
    pass(1_999);
    expect(await paths(url)).toEqual(["brief", "fork"]);
    // No sweep has passed: the listing itself leaves out an expired stream.
    pass(1);
    expect(await paths(url)).toEqual(["fork"]);
  });

  it("is never a reserved stream, and no client can create one", async () => {
    const { url, streams } = await appInTime("memory");
    const own = ["session:1", "session:", "$", "$shard", "__ds", "__dsx", "__ds/x"];
    for (const name of own) {
      const response = await create(`${url}/v1/stream/${encodeURIComponent(name)}`);
      await expectProblem(response, 403, "reserved-name");
      const config = { contentType: "text/plain" };
      expect(await streams.createAt("default", name, { config, closed: false, payloads: [] })).toMatchObject({
        kind: "created",
      });
    }
    // Only what a path starts with makes it reserved.
    for (const name of ["a/$own/0", "mine", "x__ds"])
      expect((await create(`${url}/v1/stream/${name}`)).status).toBe(201);
    expect(await paths(url)).toEqual(["a/$own/0", "mine", "x__ds"]);
    expect(await paths(url, { filter: "#" })).toEqual(["a/$own/0", "mine", "x__ds"]);
    expect(await paths(url, { filter: "+" })).toEqual(["mine", "x__ds"]);
    expect(await allPaths(url, { limit: "1" })).toEqual(["a/$own/0", "mine", "x__ds"]);
    for (const prefix of ["__ds", "$", "session:"]) expect(await list(url, { prefix })).toEqual({ streams: [] });
    for (const filter of own) expect(await list(url, { filter })).toEqual({ streams: [] });
  });
});
