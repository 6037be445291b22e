/** The refusals that several stream routes share. */
import { formatOffset, header } from "@sluice/protocol";
import { Refusal } from "../core/http.ts";
import type { ReadOutcome } from "./reading.ts";

export function absent(path: string): Refusal {
  return new Refusal("stream-not-found", `there is no stream ${path}`);
}

export function gone(path: string): Refusal {
  return new Refusal("stream-gone", `the stream ${path} was deleted`);
}

export function unreadable(outcome: Exclude<ReadOutcome, { kind: "page" }>, path: string): Refusal {
  switch (outcome.kind) {
    case "absent":
      return absent(path);
    case "gone":
      return gone(path);
    case "trimmed": {
      const earliest = formatOffset(outcome.earliest);
      return new Refusal("offset-trimmed", `the earliest offset kept is ${earliest}`, [
        header.streamEarliestOffset,
        earliest,
      ]);
    }
    case "lost": {
      const survived = formatOffset(outcome.survived);
      return new Refusal("history-lost", `a failover lost what came after ${survived}; read on from there`, [
        header.streamNextOffset,
        survived,
      ]);
    }
    case "ahead":
      return new Refusal("offset-ahead", `the stream ends at ${formatOffset(outcome.tail)}`, [
        header.streamNextOffset,
        formatOffset(outcome.tail),
      ]);
  }
}
