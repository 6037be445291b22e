import { expect, it } from "vitest";
import { formatAckId, parseAckId } from "./ack-id.ts";

it("an ack id names its delivery, up to the largest numbers", () => {
  const most = Number.MAX_SAFE_INTEGER;
  for (const id of [
    { edition: 1, log: 0, generation: 2, seq: 3, lease: 4 },
    { edition: most, log: 255, generation: most, seq: most, lease: most },
  ]) {
    expect(parseAckId(formatAckId(id))).toEqual(id);
  }
});

it.each(["", "1-2-3-4", "1-2-3-4-5-6", "1-2-3-4-!", "-1-2-3-4", "A-2-3-4-5", `${"z".repeat(12)}-1-1-1-1`])(
  "the text %s is no ack id",
  (text) => expect(parseAckId(text)).toBeUndefined(),
);
