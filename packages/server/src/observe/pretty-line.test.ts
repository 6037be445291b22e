/** Log lines for people: the same fields as JSON, on one line, and the stack of a fault below it. */
import { expect, it } from "vitest";
import { prettyLines } from "./pretty-line.ts";

const line = prettyLines(false);
const AT = new Date(2026, 0, 2, 3, 4, 5, 6).getTime();

it("shows time, level and message, then every field by its name", () => {
  expect(
    line("info", AT, { url: "http://127.0.0.1:1", engine: "disk", note: "two words", none: undefined }, "listening"),
  ).toBe('03:04:05.006 info  listening url=http://127.0.0.1:1 engine=disk note="two words"\n');
});

it("shows a request with its status first", () => {
  const fields = {
    id: "r1",
    method: "GET",
    route: "/v1/{project}/streams",
    project: "p",
    status: 200,
    ms: 1.25,
    end: undefined,
  };
  expect(line("info", AT, fields, "request")).toBe(
    "03:04:05.006 info  200 GET /v1/{project}/streams 1.25 ms project=p id=r1\n",
  );
});

it("shows the stack of a fault and of its cause on lines of their own", () => {
  const err = {
    type: "Error",
    message: "m",
    stack: "Error: m\n    at a",
    cause: { type: "X", message: "why", code: "EIO" },
  };
  expect(line("error", AT, { id: "r", err }, "a request failed")).toBe(
    "03:04:05.006 error a request failed id=r\n  Error: m\n      at a\n  caused by\n    X: why (EIO)\n",
  );
});

it("lets no control character through to the terminal", () => {
  expect(line("warn", AT, { a: "\x1b[2J", b: ["\x07"] }, "odd")).toMatch(/^\P{Cc}*\n$/u);
});

it("paints level and fields only where colors are wanted", () => {
  expect(prettyLines(true)("warn", AT, {}, "odd")).toContain("\x1b[33mwarn \x1b[0m odd");
});
