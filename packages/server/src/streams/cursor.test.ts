import { expect, test } from "vitest";
import { currentCursor, nextCursor } from "./cursor.ts";

const now = Date.UTC(2026, 5, 1);

test("a cursor counts 20-second intervals", () => {
  expect(currentCursor(Date.UTC(2024, 9, 9))).toBe(0);
  expect(currentCursor(Date.UTC(2024, 9, 9, 0, 1))).toBe(3);
});

test("a client without a cursor, or with an old or malformed one, gets the current one", () => {
  const current = currentCursor(now);
  for (const sent of [undefined, "", "x", "-5", "1", String(current - 1), "9".repeat(30)]) {
    expect(nextCursor(sent, now, 0.5)).toBe(current);
  }
});

test("a client at or past the current cursor gets a strictly greater one, at most an hour ahead", () => {
  for (const ahead of [0, 1, 1000]) {
    for (const random of [0, 0.5, 0.999999]) {
      const sent = currentCursor(now) + ahead;
      const next = nextCursor(String(sent), now, random);
      expect(next).toBeGreaterThan(sent);
      expect(next - sent).toBeLessThanOrEqual(180);
    }
  }
});
