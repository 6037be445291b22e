/** The rows of fan-out that need faults: modes, times, deduplication, stale subscribers, the queue consumer. More than three are queued. */
import { expect } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type FanoutHeaders, inline } from "./api.ts";
import { caughtUp, deferred, followed, hanging, have, logOf } from "./fault-rows.ts";
import { faultRow } from "./faulty-process.ts";
import { subscribers, uuid } from "./stage.ts";

const BYTES = Uint8Array.from({ length: 2_000 }, (_, i) => (i * 7) % 256);
const BINARY = "application/octet-stream";

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);

export const FANOUT_ROWS = [
  faultRow(
    "count <= FANOUT_QUEUE_THRESHOLD: Inline, within the publish request; killed while one has failed and another hangs",
    async (on) => {
      const { stream, sessions } = await followed(on, "inline", 3);
      expect(await on.api.published(stream, "0")).toEqual(inline(3));
      const copies = { method: "deliver", stream } as const;
      await on.server.rules(
        stream,
        { ...copies, sessions: [sessions[0]!], fate: "refused" },
        { ...copies, sessions: [sessions[1]!], fate: "stuck" },
      );
      void hanging(on, stream, "1");
      await on.server.underWay(stream, 1);
      await have(on, [sessions[2]!], [0, 1]);
      return { stream, sessions };
    },
    (on, follow) => caughtUp(on, follow, [0, 1]),
  ),
  faultRow(
    "count > threshold and FANOUT_QUEUE bound: Queued; killed before a consumer has delivered anything",
    async (on) => {
      const follow = await followed(on, "queued", 4);
      await on.server.copies("queued", "stuck");
      for (const i of upTo(3)) expect(await on.api.published("queued", String(i))).toEqual(deferred(4, "queued"));
      await on.server.underWay("queued", 4);
      for (const session of follow.sessions) expect(await on.api.messages(session)).toEqual([]);
      return follow;
    },
    async (on, { sessions }) => {
      await have(on, sessions, upTo(3));
      expect((await on.api.published("queued", "3")).count).toBe(4);
      await have(on, sessions, upTo(4));
    },
  ),
  faultRow(
    "Circuit breaker open: Circuit-open, and delivered later all the same",
    async (on) => {
      const follow = await followed(on, "circuit", 3);
      await on.server.copies("circuit", "lost");
      for (const i of upTo(5)) expect(await on.api.published("circuit", String(i))).toEqual(inline(3, 0, 3));
      expect(await on.api.published("circuit", "5")).toEqual(deferred(3, "circuit-open"));
      expect(await logOf(on, "circuit")).toEqual(upTo(6));
      return follow;
    },
    (on, follow) => caughtUp(on, follow, upTo(6)),
  ),
  faultRow(
    "FANOUT_RPC_TIMEOUT_MS: a write has 10 s, then the publish is answered without it; killed while it hangs",
    async (on) => {
      const { api, server } = on;
      const { stream, sessions } = await followed(on, "timeout", 2);
      await server.copies(stream, "stuck", sessions[0]!);
      let answer: FanoutHeaders | undefined;
      const publishing = hanging(on, stream, "0").then((told) => {
        answer = told;
      });
      await server.underWay(stream, 1);
      await server.pass(9_999);
      // It is slow by now, so that the next does not wait for it any more; but its time is not over.
      expect(await api.published(stream, "1")).toEqual(inline(2, 1, 1));
      expect(answer).toBeUndefined();
      await server.pass(1);
      await publishing;
      expect(answer).toEqual(inline(2, 1, 1));
      return { stream, sessions };
    },
    (on, follow) => caughtUp(on, follow, [0, 1]),
  ),
  faultRow(
    "Promise.allSettled: one that fails keeps none of its batch from succeeding, and a laggard is durable",
    async (on) => {
      const { stream, sessions } = await followed(on, "settled", 3);
      await on.server.copies(stream, "refused", sessions[1]!);
      for (const i of upTo(4)) expect(await on.api.published(stream, String(i))).toEqual(inline(3, 2, 1));
      await have(on, [sessions[0]!, sessions[2]!], upTo(4));
      expect(await on.api.messages(sessions[1]!)).toEqual([]);
      return { stream, sessions };
    },
    (on, follow) => caughtUp(on, follow, upTo(4)),
  ),
  faultRow(
    "Producer-Seq: fanoutSeq, which a kill does not set back",
    async (on) => {
      const follow = await followed(on, "a:b.c", 2);
      for (const i of upTo(2)) expect(await on.api.published("a:b.c", String(i))).toEqual(inline(2));
      const { calls } = await on.server.seen("a:b.c");
      const copies = calls.filter(({ method }) => method === "deliver").map((call) => call.fanoutSeq);
      expect(copies).toEqual([1, 1, 2, 2]);
      return follow;
    },
    async (on, follow) => {
      expect(await on.api.published("a:b.c", "2")).toEqual(inline(2));
      const { calls } = await on.server.seen("a:b.c");
      expect(calls.slice(-2).map((call) => call.fanoutSeq)).toEqual([3, 3]);
      await have(on, follow.sessions, upTo(3));
    },
  ),
  faultRow(
    "Duplicate writes: what was written and reported as failed is absorbed when it comes again, after a kill too",
    async (on) => {
      const { stream, sessions } = await followed(on, "lost", 3);
      await on.server.copies(stream, "lost", ...sessions.slice(1));
      for (const i of upTo(3)) expect(await on.api.published(stream, String(i))).toEqual(inline(3, 1, 2));
      return { stream, sessions };
    },
    (on, follow) => caughtUp(on, follow, upTo(3)),
  ),
  faultRow(
    "Stale subscriber auto-cleanup: a session that is not found is removed and does not come back, and the others stay",
    async (on) => {
      const { stream, sessions } = await followed(on, "stale", 3);
      const [stale, failing, well] = sessions as [string, string, string];
      const copies = { method: "deliver", stream } as const;
      await on.server.rules(
        stream,
        { ...copies, sessions: [stale], fate: "stale" },
        { ...copies, sessions: [failing], fate: "refused" },
      );
      expect(await on.api.published(stream, "0")).toEqual(inline(3, 1, 1));
      expect(await on.api.published(stream, "1")).toEqual(inline(2, 1, 1));
      return { stream, sessions: [failing, well] };
    },
    (on, follow) => caughtUp(on, follow, [0, 1]),
  ),
  faultRow(
    "Stale subscriber auto-cleanup: what a kill has left of a session in the registry is found by the next publish",
    async (on) => {
      const { stream, sessions } = await followed(on, "left-over", 2);
      const [gone, well] = sessions as [string, string];
      await on.server.rules(stream, { method: "removeSubscribers", sessions: [gone], fate: "stuck" });
      void on.api.delete(gone).catch(() => {});
      await eventually(async () => expect((await on.api.session(gone)).status).toBe(404));
      return { stream, gone, well };
    },
    async (on, { stream, gone, well }) => {
      await eventually(async () => expect(await on.api.published(stream, "0")).toEqual(inline(1)), 20_000);
      await have(on, [well], await logOf(on, stream));
      expect((await on.api.inbox(gone)).status).toBe(404);
    },
  ),
  faultRow(
    "A dead session's 404 is stale, not a failure: it never opens the circuit for the living",
    async (on) => {
      const { stream, sessions } = await followed(on, "dead", 1);
      for (const i of upTo(8)) {
        const dead = uuid();
        await on.api.subscribed(dead, stream);
        await on.server.copies(stream, "stale", dead);
        expect(await on.api.published(stream, String(i))).toEqual(inline(2, 1, 0));
      }
      return { stream, sessions };
    },
    (on, follow) => caughtUp(on, follow, upTo(8)),
  ),
  faultRow(
    "An outage never deletes a subscriber, and neither does a kill during it",
    async (on) => {
      const follow = await followed(on, "outage", 3);
      for (const [i, fate] of (["refused", "lost", "refused"] as const).entries()) {
        await on.server.copies("outage", fate);
        expect(await on.api.published("outage", String(i))).toEqual(inline(3, 0, 3));
      }
      return follow;
    },
    (on, follow) => caughtUp(on, follow, upTo(3)),
  ),
  faultRow(
    "A session that is merely stuck never holds up the others; killed while it is",
    async (on) => {
      const { stream, sessions } = await followed(on, "stuck", 3);
      const [stuck, ...others] = sessions as [string, string, string];
      await on.server.copies(stream, "stuck", stuck);
      await on.api.append(stream, "0");
      await on.server.underWay(stream, 1);
      await on.server.pass(50);
      for (const i of [1, 2, 3]) await on.api.append(stream, String(i));
      await have(on, others, upTo(4));
      expect(await on.api.messages(stuck)).toEqual([]);
      return { stream, sessions };
    },
    (on, follow) => caughtUp(on, follow, upTo(4)),
  ),
  faultRow(
    "Order: concurrent publishes are in every session in source order, though copies fail or hang; killed meanwhile",
    async (on) => {
      const { stream, sessions } = await followed(on, "order", 3);
      const copies = { method: "deliver", stream } as const;
      await on.server.rules(
        stream,
        { ...copies, sessions: [sessions[0]!], fate: "lost" },
        { ...copies, sessions: [sessions[1]!], fate: "unanswered" },
      );
      const publishing = upTo(20).map((i) => hanging(on, stream, String(i)));
      await eventually(async () => expect(await logOf(on, stream)).toHaveLength(20), 20_000);
      void publishing;
      return { stream, sessions };
    },
    async (on, follow) => {
      const log = await logOf(on, follow.stream);
      expect([...log].sort((a, b) => Number(a) - Number(b))).toEqual(upTo(20));
      await caughtUp(on, follow, log);
    },
  ),
  faultRow(
    "Queue: 101 queue messages of one fan-out; killed while they are queued",
    async (on) => {
      const { stream, sessions } = await followed(on, "sent", 101);
      await on.server.copies(stream, "stuck");
      expect(await on.api.published(stream, "0")).toEqual(deferred(101, "queued"));
      await on.server.underWay(stream, 101);
      expect((await on.server.seen(stream)).sent).toEqual([Array(101).fill(1)]);
      return { stream, sessions };
    },
    async (on, { stream, sessions }) => {
      await have(on, sessions, [0]);
      expect(await logOf(on, stream)).toEqual([0]);
    },
  ),
  faultRow(
    "Queue consumer, 1. and 2.: decodes the payload and copies it; killed while queued, it arrives byte by byte",
    async (on) => {
      await on.api.create("bytes", BINARY);
      const sessions = await subscribers(on.api, "bytes", 4);
      await on.server.copies("bytes", "stuck");
      expect(await on.api.published("bytes", BYTES, BINARY)).toEqual(deferred(4, "queued"));
      await on.server.underWay("bytes", 4);
      return sessions;
    },
    async ({ api }, sessions) => {
      for (const session of sessions) {
        await eventually(async () => {
          const response = await fetch(`${api.base}/stream/session:${session}?offset=-1`);
          expect(new Uint8Array(await response.arrayBuffer())).toEqual(BYTES);
        }, 20_000);
      }
    },
  ),
  faultRow(
    "Queue consumer, 3. and 4.: removes stale sessions and acks; after a kill no copy is tried again",
    async (on) => {
      const { stream, sessions } = await followed(on, "acked", 4);
      const [stale, ...living] = sessions as [string, string, string, string];
      await on.server.copies(stream, "stale", stale);
      expect(await on.api.published(stream, "0")).toEqual(deferred(4, "queued"));
      await have(on, living, [0]);
      await eventually(async () => expect(await on.api.published(stream, `"on"`)).toEqual(inline(3)), 20_000);
      return { stream, sessions: living, log: await logOf(on, stream) };
    },
    async (on, { stream, sessions, log }) => {
      await caughtUp(on, { stream, sessions }, log);
      const now = (await on.server.seen(stream)).calls;
      // Once for each publish of now, and of them there were as many as the log is longer.
      const published = (await logOf(on, stream)).length - log.length;
      expect(now.map(({ session }) => session).sort()).toEqual(Array(published).fill(sessions).flat().sort());
    },
  ),
  faultRow(
    "Queue consumer, 5.: retry when a write had an error, by the next process, and only that write",
    async (on) => {
      const { stream, sessions } = await followed(on, "retried", 4);
      await on.server.copies(stream, "refused", sessions[2]!);
      expect(await on.api.published(stream, "0")).toEqual(deferred(4, "queued"));
      const others = sessions.filter((_, i) => i !== 2);
      await have(on, others, [0]);
      const tries = async () => (await on.server.seen(stream)).calls.filter(({ session }) => session === sessions[2]);
      await eventually(async () => expect((await tries()).length).toBeGreaterThan(3), 20_000);
      return { stream, sessions, others };
    },
    async (on, { stream, sessions, others }) => {
      await have(on, sessions, [0]);
      const { calls } = await on.server.seen(stream);
      const copies = calls.filter(({ method }) => method === "deliver").map(({ session }) => session);
      for (const session of others) expect(copies.filter((id) => id === session)).toHaveLength(0);
    },
  ),
  faultRow(
    "The source stream write always succeeds regardless of fan-out outcome, and what a publisher was told is durable",
    async (on) => {
      const follow = await followed(on, "source", 1);
      for (const [i, fate] of (["refused", "lost", "stuck", "unanswered"] as const).entries()) {
        await on.server.copies("source", fate);
        await on.api.append("source", String(i));
      }
      return follow;
    },
    (on, follow) => caughtUp(on, follow, upTo(4)),
  ),
];
