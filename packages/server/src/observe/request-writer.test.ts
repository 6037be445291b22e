import { expect, test } from "vitest";
import { LineBuffer } from "./line-buffer.ts";
import { type Identified, RequestIds } from "./request-ids.ts";
import { RequestWriter } from "./request-writer.ts";

/** A writer on a clock that the test sets, and the lines that it has written. */
function fixture() {
  const chunks: Buffer[] = [];
  const outlet = { write() {}, writeNow: (bytes: Uint8Array) => void chunks.push(Buffer.from(bytes)) };
  const world = {
    now: () => clock.now,
    after: () => () => {},
    randomBytes: (n: number) => new Uint8Array(n).fill(0xab),
  };
  const clock = { now: 1_700_000_000_000 };
  const buffer = new LineBuffer(outlet, world, () => "", { holdMs: 0, writeBytes: 2 ** 24, bufferBytes: 2 ** 24 });
  const ids = new RequestIds(world);
  const writer = new RequestWriter(buffer, world, ids);
  const lines = () => {
    buffer.flushNow();
    return Buffer.concat(chunks.splice(0)).toString().split("\n").slice(0, -1);
  };
  return { clock, ids, writer, lines };
}

const requestOf = (given?: string): Identified => ({ id: undefined, header: () => given });

test("a line has the fields of its request in the order of JSON.stringify, whatever the line before was", () => {
  const { clock, ids, writer, lines } = fixture();
  const methods = ["POST", "GET"];
  const routes = ["stream.append", 'a "quoted" route'];
  const projects = ["default", undefined, `p${"x".repeat(2_000)}`, "p"];
  const given = [undefined, "short", undefined, "y".repeat(64), "not harmless\n"];
  const durations = [0, 0.0004, 0.0006, 0.999, 0.9996, 1.2345, 9.9996, 10, 123.456, 99_999.9994, 3_600_000.5];
  const expected: string[] = [];
  for (let i = 0; i < 2_000; i++) {
    const request = requestOf(given[i % given.length]);
    const method = methods[(i >> 1) % methods.length]!;
    const route = routes[(i >> 2) % routes.length]!;
    const project = projects[(i >> 3) % projects.length];
    const status = i % 7 === 0 ? 404 : 204;
    const ms = durations[(i * 5) % durations.length]!;
    if (i % 3 === 0) clock.now++;
    writer.write(request, method, route, project, status, ms);
    const line = { level: "info", time: clock.now, id: ids.of(request), method, route, project, status };
    const decimals = (Math.round(ms * 1_000) / 1_000).toFixed(3);
    expected.push(`${JSON.stringify(line).slice(0, -1)},"ms":${decimals},"msg":"request"}`);
  }
  expect(lines()).toEqual(expected);
});

test("a request keeps the id of its line, and no two requests share one", () => {
  const { ids, writer, lines } = fixture();
  const requests = Array.from({ length: 3_000 }, () => requestOf());
  // Some are asked for their id before they are logged.
  for (const [i, request] of requests.entries()) if (i % 5 === 0) ids.of(request);
  for (const request of requests) writer.write(request, "POST", "stream.append", "default", 204, 1);
  const logged = lines().map((line) => (JSON.parse(line) as { id: string }).id);
  expect(logged).toEqual(requests.map((request) => ids.of(request)));
  expect(new Set(logged).size).toBe(requests.length);
  expect(logged.every((id) => /^abababab-[0-9a-z]{3,}$/.test(id))).toBe(true);
});

test("an id has more digits after the first 46,656 requests", () => {
  const { ids, writer, lines } = fixture();
  for (let i = 0; i < 36 ** 3 - 1; i++) ids.of(requestOf());
  for (let i = 0; i < 2; i++) writer.write(requestOf(), "POST", "stream.append", "default", 204, 1);
  expect(lines().map((line) => (JSON.parse(line) as { id: string }).id)).toEqual(["abababab-zzz", "abababab-1000"]);
});
