/** The ids of sessions. */
import { expect, it } from "vitest";
import { newSessionId, sessionId } from "./session-id.ts";

it("a minted id is a version 4 UUID that requests may name", () => {
  const zeros = newSessionId({ randomBytes: (count) => new Uint8Array(count) });
  const ones = newSessionId({ randomBytes: (count) => new Uint8Array(count).fill(0xff) });
  expect(zeros).toBe("00000000-0000-4000-8000-000000000000");
  expect(ones).toBe("ffffffff-ffff-4fff-bfff-ffffffffffff");
  expect(sessionId.parse(ones)).toBe(ones);
});
