/** What the service of sessions refuses when a door calls it directly. */

import { expect, it } from "vitest";
import { type Access, FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import { Refusal } from "../../packages/server/src/core/refusal.ts";
import { codeOf } from "../support/refusal-code.ts";
import { stage, uuid } from "./stage.ts";

const BAD_PATHS = [
  ["session:1", "reserved-name"],
  ["__ds/x", "reserved-name"],
  ["a b", "bad-path"],
  ["a+b", "bad-path"],
  ["ä", "bad-path"],
  ["a/../b", "bad-path"],
] as const;

it.each(BAD_PATHS)("a session cannot subscribe to %j: %s", async (streamId, code) => {
  const { app } = await stage("memory");
  const input = { sessionId: uuid(), streamId, format: "raw", from: undefined } as const;
  expect(await codeOf(() => app.sessions.service.subscribe("default", input, FULL_ACCESS))).toBe(code);
});

it.each(BAD_PATHS)("nothing is published to %j: %s", async (stream, code) => {
  const { app } = await stage("memory");
  const append = { payloads: [new Uint8Array([49])], contentType: "text/plain", close: false };
  expect(await codeOf(() => app.sessions.service.publish("default", stream, append))).toBe(code);
});

it("a caller that may not read a stream cannot subscribe a session to it", async () => {
  const { app, api } = await stage("memory");
  await api.create("secret");
  const access: Access = {
    ...FULL_ACCESS,
    demand: ({ stream }) => {
      if (stream === "secret") throw new Refusal("forbidden", "no");
    },
  };
  const input = { sessionId: uuid(), streamId: "secret", format: "raw", from: undefined } as const;
  expect(await codeOf(() => app.sessions.service.subscribe("default", input, access))).toBe("forbidden");
});

it("a publish says what became of its copies, whichever door asks", async () => {
  const { app, api } = await stage("memory");
  await api.create("s", "text/plain");
  await api.subscribed(uuid(), "s");
  const append = { payloads: [new Uint8Array([49])], contentType: "text/plain", close: false };
  let stored = 0;
  const { outcome, copies } = await app.sessions.service.publish("default", "s", append, () => stored++);
  expect(outcome.kind).toBe("appended");
  expect(copies).toEqual({ mode: "inline", count: 1, successes: 1, failures: 0 });
  expect(stored).toBe(1);
});
