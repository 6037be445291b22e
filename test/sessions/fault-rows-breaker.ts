/** The rows of the circuit breaker's tables, with its constants as they are by default. Two sessions follow in each. */
import { expect } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type FanoutHeaders, inline } from "./api.ts";
import { caughtUp, deferred, followed, hanging } from "./fault-rows.ts";
import { faultRow, type On } from "./faulty-process.ts";

const RECOVERY_MS = 60_000;
const OPEN = deferred(2, "circuit-open");
const FAILED = inline(2, 0, 2);

/** Five publishes whose copies all fail, and the first that does not wait. */
async function opened(on: On, stream: string) {
  const follow = await followed(on, stream, 2);
  await on.server.copies(stream, "refused");
  for (let i = 0; i < 5; i++) expect(await on.api.published(stream, String(i))).toEqual(FAILED);
  expect(await on.api.published(stream, "5")).toEqual(OPEN);
  return follow;
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);

export const BREAKER_ROWS = [
  faultRow(
    "Closed (default): inline fan-out proceeds normally; killed while a copy is done and not answered",
    async (on) => {
      const follow = await followed(on, "closed", 2);
      for (const i of upTo(6)) expect(await on.api.published("closed", String(i))).toEqual(inline(2));
      await on.server.copies("closed", "unanswered");
      void hanging(on, "closed", "6");
      await on.server.underWay("closed", 2);
      return follow;
    },
    (on, follow) => caughtUp(on, follow, upTo(7)),
  ),
  faultRow(
    "Open: inline fan-out is skipped, the source write still succeeds; killed, and the copies follow",
    async (on) => {
      const follow = await opened(on, "open");
      for (const i of [6, 7]) expect(await on.api.published("open", String(i))).toEqual(OPEN);
      return follow;
    },
    (on, follow) => caughtUp(on, follow, upTo(8)),
  ),
  faultRow(
    "Half-open: one fan-out attempt is allowed to test recovery; killed while it is under way",
    async (on) => {
      const follow = await opened(on, "half-open");
      await on.server.pass(RECOVERY_MS);
      await on.server.copies("half-open", "stuck");
      const answers: (FanoutHeaders | undefined)[] = [];
      for (let i = 0; i < 3; i++) void hanging(on, "half-open", "6").then((answer) => answers.push(answer));
      await eventually(() => expect(answers).toEqual([OPEN, OPEN]));
      await on.server.underWay("half-open", 2);
      expect(answers).toHaveLength(2);
      return follow;
    },
    (on, follow) => caughtUp(on, follow, [...upTo(6), 6, 6, 6]),
  ),
  faultRow(
    "Closed -> Open: after CIRCUIT_BREAKER_FAILURE_THRESHOLD (5) consecutive failures, not before; a kill closes it, for it is in memory",
    async (on) => {
      const follow = await followed(on, "opening", 2);
      await on.server.copies("opening", "refused");
      for (const i of upTo(5)) expect(await on.api.published("opening", String(i))).toEqual(FAILED);
      for (const i of [5, 6]) expect(await on.api.published("opening", String(i))).toEqual(OPEN);
      return follow;
    },
    async (on, follow) => {
      expect((await on.api.published("opening", "7")).mode).toBe("inline");
      await caughtUp(on, follow, upTo(8));
    },
  ),
  faultRow(
    "Open -> Half-open: CIRCUIT_BREAKER_RECOVERY_MS (60 s) after the last failure, not before; killed when the copies of the test are done and reported as failed",
    async (on) => {
      const follow = await opened(on, "recovering");
      await on.server.pass(RECOVERY_MS - 1);
      expect(await on.api.published("recovering", "6")).toEqual(OPEN);
      await on.server.copies("recovering", "lost");
      await on.server.pass(1);
      expect(await on.api.published("recovering", "7")).toEqual(FAILED);
      return follow;
    },
    (on, follow) => caughtUp(on, follow, upTo(8)),
  ),
  faultRow(
    "Half-open -> Closed: when the test has any success; killed while one of them lags",
    async (on) => {
      const { stream, sessions } = await opened(on, "closing");
      const [, bob] = sessions as [string, string];
      // What is tried by itself before the test comes fails too, so that no session is known to lag by then.
      const fails = { method: "deliver", stream, fate: "refused" } as const;
      await on.server.rules(stream, { ...fails, sessions: [bob] }, { ...fails, lacking: "6" });
      await on.server.pass(RECOVERY_MS);
      const half = inline(2, 1, 1);
      expect(await on.api.published(stream, "6")).toEqual(half);
      await on.server.rules(stream, { ...fails, sessions: [bob] });
      for (const i of [7, 8]) expect(await on.api.published(stream, String(i))).toEqual(half);
      return { stream, sessions };
    },
    (on, follow) => caughtUp(on, follow, upTo(9)),
  ),
  faultRow(
    "Half-open -> Open: when the test has only failures, for another 60 s; killed while it is open",
    async (on) => {
      const follow = await opened(on, "open-again");
      await on.server.pass(RECOVERY_MS);
      expect(await on.api.published("open-again", "6")).toEqual(FAILED);
      expect(await on.api.published("open-again", "7")).toEqual(OPEN);
      await on.server.pass(RECOVERY_MS - 1);
      expect(await on.api.published("open-again", "8")).toEqual(OPEN);
      return follow;
    },
    (on, follow) => caughtUp(on, follow, upTo(9)),
  ),
  faultRow(
    "Any -> Closed: a fan-out with zero failures starts the count again; killed during the next outage",
    async (on) => {
      const { api, server } = on;
      const follow = await followed(on, "counting", 2);
      for (let next = 0; next < 10; ) {
        await server.copies("counting", "refused");
        for (let i = 0; i < 4; i++) expect(await api.published("counting", String(next++))).toEqual(FAILED);
        await server.rules("counting");
        expect(await api.published("counting", String(next++))).toEqual(inline(2));
      }
      await server.copies("counting", "refused");
      for (const i of [10, 11, 12, 13]) expect(await api.published("counting", String(i))).toEqual(FAILED);
      return follow;
    },
    (on, follow) => caughtUp(on, follow, upTo(14)),
  ),
];
