/** Projects: which names they may have, which are routes instead, and that nothing crosses from one to another. */
import { beforeAll, describe, expect, it } from "vitest";
import { expectProblem } from "./problem.ts";
import { exchange } from "./raw-http.ts";
import { append, appended, closeAfterSuite, create, describeOnEngines, type Fixture, openServer } from "./server.ts";
import { SseClient } from "./sse-client.ts";

const ROUTE_WORDS =
  "stream streams subscribe unsubscribe publish session sessions subscriptions live heartbeat session-offsets consume groups pull topics channels admin".split(
    " ",
  );
/** The words that the id of a session follows. */
const BEFORE_IDS = ["session", "live", "session-offsets"];
const TEXT = { "Content-Type": "text/plain" };

describeOnEngines("two projects", (engine) => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openServer(engine);
  });
  closeAfterSuite(() => fixture);

  it("have nothing in common, not even a stream of the same path", async () => {
    const [one, two] = ["one", "two"].map((project) => `${fixture.url}/v1/${project}/stream/a/b`) as [string, string];
    expect((await create(one, TEXT)).status).toBe(201);
    await expectProblem(await fetch(two), 404, "stream-not-found");
    await expectProblem(await append(two, "text/plain", "x"), 404, "stream-not-found");
    expect((await create(two, { "Content-Type": "application/json" })).status).toBe(201);
    const sse = await SseClient.open(`${two}?offset=-1&live=sse`);
    await appended(one, "text/plain", "of one");
    const offset = await appended(two, "application/json", '"of two"');
    await sse.upTo(offset);
    sse.close();
    expect(sse.data).toEqual(['["of two"]']);
    expect(await (await fetch(one)).text()).toBe("of one");
    expect((await fetch(one, { method: "DELETE" })).status).toBe(204);
    expect(await (await fetch(two)).json()).toEqual(["of two"]);
  });

  it("list only their own", async () => {
    await create(`${fixture.url}/v1/three/stream/x`, TEXT);
    await create(`${fixture.url}/v1/three-and-more/stream/y`, TEXT);
    const listed = (await (await fetch(`${fixture.url}/v1/three/streams`)).json()) as { streams: { path: string }[] };
    expect(listed.streams.map(({ path }) => path)).toEqual(["x"]);
  });

  it("cannot fork from one another", async () => {
    await create(`${fixture.url}/v1/four/stream/source`, TEXT);
    const across = await create(`${fixture.url}/v1/five/stream/fork`, {
      "Stream-Forked-From": "/v1/four/stream/source",
    });
    expect((await expectProblem(across, 400, "bad-header")).detail).toContain("Stream-Forked-From");
    const byPath = await create(`${fixture.url}/v1/five/stream/fork`, { "Stream-Forked-From": "source" });
    await expectProblem(byPath, 404, "stream-not-found");
  });

  it("fork from a source whose path begins like an address", async () => {
    const { url } = fixture;
    await create(`${url}/v1/stream/x`, TEXT);
    await create(`${url}/v1/stream/stream/x`, TEXT, "one");
    await create(`${url}/v1/six/stream/stream/x`, TEXT, "two");
    for (const [base, source, text] of [
      ["/v1/stream", "/v1/stream/stream/x", "one"],
      ["/v1/default/stream", "/v1/default/stream/stream/x", "one"],
      ["/v1/six/stream", "/v1/six/stream/stream/x", "two"],
    ] as const) {
      const fork = `${url}${base}/fork-${text}-${source.length}`;
      expect((await create(fork, { "Stream-Forked-From": source })).status, source).toBe(201);
      expect(await (await fetch(fork)).text(), source).toBe(text);
    }
  });

  it("are told apart by case and by every character", async () => {
    for (const name of ["P", "p", "p-", "p_", "-p", "_p", "0", "__proto__", "constructor"]) {
      const url = `${fixture.url}/v1/${name}/stream/same`;
      expect((await create(url, TEXT)).status, name).toBe(201);
      await appended(url, "text/plain", name);
    }
    for (const name of ["P", "p", "p-", "p_", "-p", "_p", "0", "__proto__", "constructor"]) {
      expect(await (await fetch(`${fixture.url}/v1/${name}/stream/same`)).text()).toBe(name);
    }
  });
});

describe("the project default", () => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openServer("memory");
  });
  closeAfterSuite(() => fixture);

  it("may be left out", async () => {
    expect((await create(`${fixture.url}/v1/stream/a/b`, TEXT)).status).toBe(201);
    expect((await create(`${fixture.url}/v1/default/stream/a/b`, TEXT)).status).toBe(200);
    await appended(`${fixture.url}/v1/default/stream/a/b`, "text/plain", "x");
    expect(await (await fetch(`${fixture.url}/v1/stream/a/b`)).text()).toBe("x");
    const [short, long] = [await fetch(`${fixture.url}/v1/streams`), await fetch(`${fixture.url}/v1/default/streams`)];
    expect(await short.json()).toEqual(await long.json());
  });

  it("is where a stream goes whose path looks like a project", async () => {
    expect((await create(`${fixture.url}/v1/stream/other/stream/x`, TEXT)).status).toBe(201);
    await expectProblem(await fetch(`${fixture.url}/v1/other/stream/x`), 404, "stream-not-found");
    expect((await fetch(`${fixture.url}/v1/default/stream/other/stream/x`)).status).toBe(200);
  });
});

describe("a name that is no project's", () => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openServer("memory");
  });
  closeAfterSuite(() => fixture);

  it.each(ROUTE_WORDS)("is a route's: %s", async (word) => {
    for (const tail of ["stream/x", "streams"]) {
      const response = await fetch(`${fixture.url}/v1/${word}/${tail}`, tail === "streams" ? {} : { method: "PUT" });
      // Under /v1/stream/ this is a path of the project default, as under publish/ and topics/, and after session/, live/ and session-offsets/ it should be
      // an id; under any other word it is nothing at all.
      if (word === "stream") expect([200, 201, 404]).toContain(response.status);
      else if (word === "publish" || word === "topics") expect(response.status).toBe(405);
      else if (BEFORE_IDS.includes(word) && tail === "streams") expect(response.status).toBe(400);
      else expect(response.status, `${word}/${tail}`).toBe(404);
    }
    const listed = await fetch(`${fixture.url}/v1/default/streams`);
    const { streams } = (await listed.json()) as { streams: { path: string }[] };
    for (const { path } of streams) expect(path).toBe("stream/x");
  });

  it.each([
    "%20",
    "a%20b",
    "a.b",
    "a:b",
    "%C3%A4",
    "a%2Fb",
    "%",
    "a+b",
    "~",
    "p".repeat(129),
    "default%00",
    "de%66ault",
  ])("is malformed: %s", async (name) => {
    for (const tail of ["stream/x", "streams"]) {
      const target = `/v1/${name}/${tail}`;
      const answer = await exchange(fixture.port, `GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
      expect(answer.status).toBe(400);
      expect(JSON.parse(answer.body.toString())).toMatchObject({ code: "bad-project" });
    }
  });

  it("is empty", async () => {
    for (const target of ["/v1//stream/x", "/v1//streams", "/v1/"]) {
      const answer = await exchange(fixture.port, `GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
      expect(JSON.parse(answer.body.toString())).toMatchObject({ code: "bad-project", status: 400 });
    }
  });
});
