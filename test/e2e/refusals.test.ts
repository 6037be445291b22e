/**
 * A request with one wrong part is refused with that part's name: every header, every query parameter, with generated wrong
 * values. What was wrong with it must not have changed anything.
 */
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { latin1 } from "./fuzz/requests.ts";
import { checkProblem } from "./problem.ts";
import { RawConnection, type RawResponse } from "./raw-http.ts";
import { appended, closeAfterSuite, createdStream, type Fixture, openServer } from "./server.ts";

const SEED = Number(process.env.SLUICE_FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 31));
const RUNS = process.env.SLUICE_DEEP ? 2_000 : 40;

/** Wrong values: the known ones, which are all tried, and generators of more. */
interface Wrong {
  readonly known: readonly string[];
  readonly random: readonly fc.Arbitrary<string>[];
}

const wrong = (known: readonly string[], ...random: readonly fc.Arbitrary<string>[]): Wrong => ({ known, random });
const adding = ({ known, random }: Wrong, ...more: string[]): Wrong => ({ known: [...known, ...more], random });

/** `check` throws for a value that the server takes. */
async function checkEach({ known, random }: Wrong, check: (value: string) => Promise<void>): Promise<void> {
  for (const value of known) await check(value);
  if (random.length === 0) return;
  await fc.assert(fc.asyncProperty(fc.oneof(...random), check), { seed: SEED, numRuns: RUNS });
}

/** As a server sees a value: without the spaces around it. */
const seen = (value: string) => value.replace(/^[ \t]+|[ \t]+$/g, "");

const isCount = (value: string) => /^(0|[1-9]\d*)$/.test(seen(value)) && Number(seen(value)) <= Number.MAX_SAFE_INTEGER;
const notCount = wrong(
  ["", "-1", "+1", "00", "01", "1.0", "1e3", "0x10", "NaN", "Infinity", "1 2", "1,2", "9007199254740992", "²"],
  fc.integer({ max: -1 }).map(String),
  fc.double({ noInteger: true, noNaN: true }).map(String),
  latin1.filter((value) => !isCount(value)),
);
const notLimit = adding(notCount, "0");
const notTime = wrong(
  [
    "tomorrow",
    "2030-01-01",
    "2030-01-01T00:00:00",
    "2030-13-01T00:00:00Z",
    "2099-02-30T00:00:00Z",
    "2099-02-29T00:00:00Z",
    "2099-04-31T00:00:00+02:00",
    "2099-01-00T00:00:00Z",
    "2099-01-01T24:00:00Z",
    "2030-01-01 00:00:00Z",
    "1893456000",
    "",
  ],
  latin1.filter((value) => !/^\d{4}-/.test(seen(value))),
);
const notType = wrong(
  [
    "nonsense",
    "/",
    "text/",
    "/plain",
    "text plain",
    "text/plain, text/html",
    "text/(comment)",
    `text/${"x".repeat(300)}`,
  ],
  fc.stringMatching(/^[a-z]{1,20}$/),
);
const notAttributes = wrong(
  ["", "{", "null", "[]", "1", '"x"', '{"a":1}', '{"a":null}', '{"a":["b"]}', `{"a":"${"x".repeat(4_100)}"}`],
  latin1.filter((value) => !/^\{/.test(seen(value))),
);
const tooLong = (bytes: number) =>
  wrong(
    ["", "v".repeat(bytes + 1)],
    fc.integer({ min: bytes + 1, max: bytes + 500 }).map((length) => "v".repeat(length)),
  );

const WRITER = { "Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0" };
const FORK = { "Stream-Forked-From": "there" };

const HEADERS: readonly (readonly [string, "PUT" | "POST", Record<string, string>, Wrong])[] = [
  ["Content-Type", "PUT", {}, notType],
  ["Content-Type", "POST", {}, notType],
  ["Stream-TTL", "PUT", {}, notCount],
  ["Stream-Expires-At", "PUT", {}, notTime],
  ["Stream-Max-Messages", "PUT", {}, notLimit],
  ["Stream-Max-Bytes", "PUT", {}, notLimit],
  ["Stream-Max-Age-Seconds", "PUT", {}, adding(notLimit, "9007199254740991", "3153600001")],
  [
    "Stream-Fork-Offset",
    "PUT",
    FORK,
    wrong(
      [],
      latin1.filter((value) => !["-1", "now"].includes(seen(value))),
    ),
  ],
  ["Stream-Fork-Sub-Offset", "PUT", FORK, adding(notCount, "1000", "9007199254740991")],
  ["Stream-Fork-Offset", "PUT", {}, wrong(["-1", "now"])],
  [
    "Stream-Forked-From",
    "PUT",
    {},
    wrong(["", "/v1/stream/%zz", "/v1/stream/%00", "/v1/other/stream/x", "x".repeat(1_025)]),
  ],
  ["Producer-Id", "POST", { ...WRITER }, tooLong(512)],
  ["Producer-Epoch", "POST", { ...WRITER }, notCount],
  ["Producer-Seq", "POST", { ...WRITER }, notCount],
  ["Stream-Seq", "POST", {}, tooLong(1_024)],
  ["Message-Id", "POST", {}, tooLong(512)],
  ["Message-Key", "POST", {}, tooLong(1_024)],
  ["Message-Attributes", "POST", {}, notAttributes],
];

const QUERIES: readonly (readonly [string, string, Wrong])[] = [
  [
    "offset",
    "/v1/stream/there?",
    wrong(["", "0", "-2", "NOW", "1_1", "0000000000000001-0000000000000001", "%zz", "٠"]),
  ],
  ["live", "/v1/stream/there?offset=-1&", wrong(["", "true", "SSE", "longpoll", "long-poll%20", "%"])],
  ["format", "/v1/stream/there?", wrong(["", "json", "ENVELOPE", "raw%20", "%ff"])],
  ["limit", "/v1/streams?", wrong(["", "0", "-1", "1001", "1e1", "9".repeat(30), "%31%2e"])],
  ["filter", "/v1/streams?", wrong(["", "%23/a", "a%2Bb", "a/%23/b", "x".repeat(1_025)])],
  ["prefix", "/v1/streams?", wrong(["x".repeat(1_025)])],
  ["after", "/v1/streams?", wrong(["x".repeat(1_025)])],
];

describe("a request with one wrong part", () => {
  let fixture: Fixture;
  let connection: RawConnection;
  let before: string;
  beforeAll(async () => {
    fixture = await openServer("memory");
    const url = await createdStream(fixture, "there", "text/plain");
    await appended(url, "text/plain", "untouched");
    before = await (await fetch(`${fixture.url}/v1/streams`)).text();
    connection = await RawConnection.open(fixture.port);
  });
  closeAfterSuite(() => fixture);

  async function send(
    method: string,
    target: string,
    headers: Record<string, string> = {},
    body = "",
  ): Promise<RawResponse> {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const length = `Content-Length: ${body.length}\r\n`;
    connection.send(`${method} ${target} HTTP/1.1\r\nHost: localhost\r\n${lines.join("")}${length}\r\n${body}`);
    return (await connection.answer(method)) as RawResponse;
  }

  async function nothingChanged(): Promise<void> {
    expect(await (await fetch(`${fixture.url}/v1/streams`)).text()).toBe(before);
  }

  it.each(HEADERS)("is refused by the header's name: %s of a %s", async (name, method, more, values) => {
    await checkEach(values, async (value) => {
      const target = method === "PUT" ? "/v1/stream/new" : "/v1/stream/there";
      const body = method === "PUT" ? "" : "x";
      const answer = await send(method, target, { "Content-Type": "text/plain", ...more, [name]: value }, body);
      const { status, code, detail } = checkProblem(answer);
      if (status !== 400 || code !== "bad-header" || !detail.includes(name)) throw new Error(answer.body.toString());
    });
    await nothingChanged();
  });

  it.each(QUERIES)("is refused by the query parameter's name: %s", async (name, target, values) => {
    await checkEach(values, async (value) => {
      const encoded = /^[\x21-\x7e]*$/.test(value) ? value : encodeURIComponent(value);
      const answer = await send("GET", `${target}${name}=${encoded}`);
      const { status, detail } = checkProblem(answer);
      if (status !== 400 || !detail.includes(`query parameter ${name}`)) throw new Error(answer.body.toString());
    });
  });

  it.each(["offset", "live", "format", "cursor"])(
    "is refused when the query parameter %s comes twice",
    async (name) => {
      const value = { offset: "-1", live: "sse", format: "raw", cursor: "1" }[name];
      const others = name === "offset" ? "live=long-poll" : name === "live" ? "offset=-1" : "offset=-1&live=long-poll";
      const answer = await send("GET", `/v1/stream/there?${others}&${name}=${value}&${name}=${value}`);
      const { code, detail } = checkProblem(answer);
      expect(code).toBe("bad-query");
      expect(detail).toContain(`query parameter ${name}`);
    },
  );

  it("is refused when a live read does not say from where", async () => {
    for (const live of ["sse", "long-poll"]) {
      expect(checkProblem(await send("GET", `/v1/stream/there?live=${live}`)).detail).toContain(
        "query parameter offset",
      );
    }
  });

  it.each(["Producer-Id", "Producer-Epoch", "Producer-Seq"])(
    "is refused when of the producer headers %s is missing",
    async (name) => {
      const { [name as keyof typeof WRITER]: _, ...rest } = WRITER;
      const answer = await send("POST", "/v1/stream/there", { "Content-Type": "text/plain", ...rest }, "x");
      expect(checkProblem(answer)).toMatchObject({
        status: 400,
        code: "bad-header",
        detail: expect.stringContaining(name),
      });
      await nothingChanged();
    },
  );

  it("is refused when the body is not what its type says, or not there", async () => {
    await createdStream(fixture, "json", "application/json");
    before = await (await fetch(`${fixture.url}/v1/streams`)).text();
    const json = { "Content-Type": "application/json" };
    for (const body of ["{", "[1,", "\xff", '"\xed\xa0\x80"', "\xef\xbb\xbf1", "nul", "01", "'x'", "[1]]", "1 2"]) {
      expect(checkProblem(await send("POST", "/v1/stream/json", json, body)), body).toMatchObject({ code: "bad-body" });
      expect(checkProblem(await send("PUT", "/v1/stream/new", json, body)), body).toMatchObject({ code: "bad-body" });
    }
    for (const body of ["", "[]", " [ ] "]) {
      expect(checkProblem(await send("POST", "/v1/stream/json", json, body)), body).toMatchObject({
        code: "empty-body",
      });
    }
    await nothingChanged();
  });

  it("is refused with the producer id that is ours", async () => {
    const headers = { "Content-Type": "text/plain", ...WRITER, "Producer-Id": "fanout:x" };
    expect(checkProblem(await send("POST", "/v1/stream/there", headers, "x"))).toMatchObject({
      status: 403,
      code: "reserved-name",
      detail: expect.stringContaining("Producer-Id"),
    });
  });

  it("is refused when it forks what is reserved", async () => {
    for (const source of ["session:1", "$shard", "__ds", "/v1/stream/session:1", "/v1/stream/%24x"]) {
      const answer = await send("PUT", "/v1/stream/new", { "Stream-Forked-From": source });
      expect(checkProblem(answer), source).toMatchObject({ status: 403, code: "reserved-name" });
    }
    await nothingChanged();
  });
});
