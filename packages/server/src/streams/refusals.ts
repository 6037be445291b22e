/** The refusals that several stream routes share. */
import { formatOffset, header } from "@sluice/protocol";
import { Refusal } from "../core/http.ts";
import { shardPath, shardPaths } from "../core/shard-path.ts";
import type { ReadOutcome } from "./reading.ts";
import type { Meta } from "./state.ts";

export function absent(path: string): Refusal {
  return new Refusal("stream-not-found", `there is no stream ${path}`);
}

export function gone(path: string): Refusal {
  return new Refusal("stream-gone", `the stream ${path} was deleted`);
}

export function sharded(path: string, shards: number): Refusal {
  const last = shardPath(path, shards - 1);
  const detail = `${path} is a sharded topic without an order of its own; its messages are in ${shards} streams, the last of which is ${last}`;
  return new Refusal("stream-sharded", detail, [header.streamShards, String(shards)], {
    shards: shardPaths(path, shards),
  });
}

/** Throws when there is no log to read here. */
export function refuseTopic({ config: { shards } }: Meta, path: string): void {
  if (shards !== undefined) throw sharded(path, shards);
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
    case "sharded":
      return sharded(path, outcome.shards);
    case "ahead":
      return new Refusal("offset-ahead", `the stream ends at ${formatOffset(outcome.tail)}`, [
        header.streamNextOffset,
        formatOffset(outcome.tail),
      ]);
  }
}
