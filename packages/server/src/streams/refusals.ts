/**
 * Turns outcomes of streams into refusals, for every door: what was wrong, in words and as facts. Called by the routes
 * of streams and sessions.
 */
import { formatOffset, header } from "@sluice/protocol";
import { Refusal } from "../core/refusal.ts";
import { shardPath, shardPaths } from "../core/shard-path.ts";
import type { AppendOutcome } from "./append.ts";
import type { CreateResult } from "./life.ts";
import type { ReadOutcome } from "./reading.ts";
import type { Fork } from "./service.ts";
import type { Meta } from "./state.ts";

type RefusedAppend = Exclude<AppendOutcome, { kind: "appended" | "duplicate" }>;

export function absent(path: string): Refusal {
  return new Refusal("stream-not-found", `there is no stream ${path}`);
}

export function gone(path: string): Refusal {
  return new Refusal("stream-gone", `the stream ${path} was deleted and is kept for its forks; use another path`);
}

export function sharded(path: string, shards: number): Refusal {
  const last = shardPath(path, shards - 1);
  const detail = `${path} is a sharded topic without an order of its own; its messages are in ${shards} streams, the last of which is ${last}`;
  return new Refusal("stream-sharded", detail, { shardCount: shards, shards: shardPaths(path, shards) });
}

/** Throws for a sharded topic, because it has no log to read. */
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
      return new Refusal(
        "offset-trimmed",
        `retention has removed messages after this offset; read on from ${earliest}`,
        { earliestOffset: earliest },
      );
    }
    case "lost": {
      const survived = formatOffset(outcome.survived);
      return new Refusal("history-lost", `a failover lost messages before this offset; read on from ${survived}`, {
        nextOffset: survived,
      });
    }
    case "sharded":
      return sharded(path, outcome.shards);
    case "ahead": {
      const nextOffset = formatOffset(outcome.tail);
      return new Refusal("offset-ahead", `the offset lies beyond the end of the stream; the end is ${nextOffset}`, {
        nextOffset,
      });
    }
  }
}

/** Why an append was refused. */
export function appendRefusal(outcome: RefusedAppend, path: string): Refusal {
  const refusal = refusalOf(outcome, path);
  return outcome.shard === undefined ? refusal : refusal.with({ shard: outcome.shard });
}

function refusalOf(outcome: RefusedAppend, path: string): Refusal {
  switch (outcome.kind) {
    case "absent":
      return absent(path);
    case "gone":
      return gone(path);
    case "closed":
      return new Refusal("stream-closed", "the stream is closed; nothing can be appended", {
        closed: true,
        nextOffset: formatOffset(outcome.next),
      });
    case "wrong-type":
      return new Refusal(
        "content-type-mismatch",
        `${header.contentType} must be that of the stream, ${outcome.contentType}`,
      );
    case "seq-regression":
      return new Refusal("sequence-regression", `${header.streamSeq} must sort after ${JSON.stringify(outcome.last)}`);
    case "producer-fenced":
      return new Refusal(
        "producer-fenced",
        `epoch ${outcome.epoch} of this producer has taken over; stop this producer, or raise its epoch`,
        {
          producerEpoch: outcome.epoch,
        },
      );
    case "producer-epoch-start":
      return new Refusal("producer-epoch-start", `${header.producerSeq} must be 0 in a new epoch`);
    case "producer-gap":
      return new Refusal("producer-gap", `${header.producerSeq} must be ${outcome.expected}; got ${outcome.received}`, {
        expectedSeq: outcome.expected,
        receivedSeq: outcome.received,
      });
  }
}

/** Why a stream was not created. */
export function createRefusal(
  result: Exclude<CreateResult, { kind: "created" | "exists" }>,
  path: string,
  fork: Fork | undefined,
): Refusal {
  switch (result.kind) {
    case "differs":
      return new Refusal(
        "stream-exists",
        `${path} exists and differs in ${result.what}; delete it first, or send its configuration`,
      );
    case "gone":
      return new Refusal("stream-exists", `${path} was deleted and is kept for its forks; use another path`);
    case "source-absent":
      return new Refusal("stream-not-found", `${header.streamForkedFrom} names a stream that does not exist`);
    case "source-gone":
      return new Refusal("fork-source-gone", `${header.streamForkedFrom} names a deleted stream`);
    case "source-sharded":
      return new Refusal(
        "stream-sharded",
        `${header.streamForkedFrom} names ${fork!.source}, a sharded topic; its shards can be forked`,
      );
    case "shard-taken":
      return new Refusal(
        "stream-exists",
        `${result.path}, which would be a shard of ${path}, is still there or kept for its forks`,
      );
    case "source-type":
      return new Refusal(
        "content-type-mismatch",
        `${header.contentType} must be that of the source, ${result.contentType}`,
      );
    case "bad-fork-offset":
      return new Refusal(
        "bad-header",
        `${header.streamForkOffset} must be an offset from this server; got ${JSON.stringify(fork!.offset?.slice(0, 40))}`,
      );
    case "fork-ahead":
      return new Refusal(
        "bad-header",
        `${header.streamForkOffset} lies beyond the end of the source; send an offset at or before its tail`,
      );
    case "fork-trimmed":
      return new Refusal(
        "bad-header",
        `${header.streamForkOffset} lies before the earliest message kept; send a later offset`,
      );
    case "fork-unknown":
      return new Refusal(
        "bad-header",
        `${header.streamForkOffset} is not in the source's history: it is of an earlier stream at this path, or a failover lost it; send an offset that a read of the source returns`,
      );
    case "fork-sub-offset":
      return new Refusal("bad-header", `${header.streamForkSubOffset} goes beyond what follows the fork offset`);
    case "fork-too-deep":
      return new Refusal(
        "bad-request",
        `${header.streamForkedFrom} names a fork of too many forks; fork one of its ancestors`,
      );
  }
}
