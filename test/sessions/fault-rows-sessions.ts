/** The rows of subscribing, unsubscribing and ending, each cut short by a fault or by the kill at one of its steps. */
import { expect } from "vitest";
import { eventually } from "../support/eventually.ts";
import { inline } from "./api.ts";
import { flows, followed, have } from "./fault-rows.ts";
import { faultRow, type On } from "./faulty-process.ts";
import { uuid } from "./stage.ts";

/** Asks for a subscription that is not answered before the kill. */
function subscribing({ api }: On, session: string, stream: string): Promise<unknown> {
  return api.subscribe(session, stream).catch(() => undefined);
}

async function notThere({ api }: On, session: string): Promise<void> {
  expect((await api.session(session)).status).toBe(404);
  expect((await api.inbox(session)).status).toBe(404);
}

const listed = async ({ api }: On, session: string): Promise<string[]> =>
  (await api.session(session)).body.subscriptions.map(({ streamId }: { streamId: string }) => streamId);

export const SESSION_ROWS = [
  faultRow(
    "Subscribe flow, 1. look up the source: when that fails, nothing is left, and a kill brings nothing back",
    async (on) => {
      await on.api.create("looked-up");
      await on.server.rules("looked-up", { method: "follow", stream: "looked-up", fate: "lost" });
      const session = uuid();
      expect((await on.api.subscribe(session, "looked-up")).status).toBe(503);
      await notThere(on, session);
      return session;
    },
    async (on, session) => {
      await notThere(on, session);
      expect((await on.api.subscribed(session, "looked-up")).body.isNewSession).toBe(true);
      await flows(on, { stream: "looked-up", sessions: [session] });
    },
  ),
  faultRow(
    "Subscribe flow, 2. create the session stream: killed after that, nothing is subscribed, and to subscribe begins anew",
    async (on) => {
      await on.api.create("created");
      const session = uuid();
      await on.server.rules("created", { method: "join", stream: "created", fate: "unanswered" });
      void subscribing(on, session, "created");
      await on.server.underWay("created", 1);
      await on.api.append("created", "0");
      return session;
    },
    async (on, session) => {
      expect(await listed(on, session)).toEqual([]);
      expect(await on.api.published("created", "1")).toEqual(inline(0));
      expect((await on.api.subscribed(session, "created")).body.isNewSession).toBe(false);
      expect(await listed(on, session)).toEqual(["created"]);
      await eventually(async () => expect(await on.api.published("created", "2")).toEqual(inline(1)));
      expect(await on.api.messages(session)).toEqual([2]);
    },
  ),
  faultRow(
    "Subscribe flow, 3. add the subscriber: when that fails, a session that was just created is rolled back, for good",
    async (on) => {
      const { sessions } = await followed(on, "rolled-back", 1);
      await on.api.create("of-before");
      const [kept, session] = [sessions[0]!, uuid()];
      for (const stream of ["rolled-back", "of-before"]) {
        const who = stream === "of-before" ? kept : session;
        await on.server.rules(stream, { method: "addSubscriber", sessions: [who], fate: "refused" });
        expect((await on.api.subscribe(who, stream)).status).toBe(503);
      }
      await notThere(on, session);
      expect(await listed(on, kept)).toEqual(["rolled-back"]);
      return { kept, session };
    },
    async (on, { kept, session }) => {
      await notThere(on, session);
      expect(await listed(on, kept)).toEqual(["rolled-back"]);
      expect(await on.api.published("of-before", "0")).toEqual(inline(0));
      await flows(on, { stream: "rolled-back", sessions: [kept] });
      expect((await on.api.subscribed(session, "of-before")).body.isNewSession).toBe(true);
      await on.api.published("of-before", "1");
      await have(on, [session], [1]);
    },
  ),
  faultRow(
    "Subscribe flow, 3. add the subscriber: killed while the word of it is on its way, it is listed and copied to",
    async (on) => {
      await on.api.create("added");
      const session = uuid();
      await on.server.rules("added", { method: "addSubscriber", sessions: [session], fate: "unanswered" });
      void subscribing(on, session, "added");
      // It has got through when a publish counts it.
      await eventually(async () => expect((await on.api.published("added", `"on"`)).count).toBe(1), 20_000);
      return { session, log: (await on.api.call("GET", "/stream/added?offset=-1")).body as unknown[] };
    },
    async (on, { session, log }) => {
      expect(await listed(on, session)).toEqual(["added"]);
      expect((await on.api.subscribed(session, "added")).body.isNewSession).toBe(false);
      await eventually(async () => expect(await on.api.published("added", `"after"`)).toEqual(inline(1)));
      const messages = await on.api.messages(session);
      // Everything from one point on; what was published after it was counted is among it.
      const { body } = await on.api.call("GET", "/stream/added?offset=-1");
      expect(messages).toEqual(body.slice(-messages.length));
      expect(messages.length).toBeGreaterThan(body.length - log.length);
    },
  ),
  faultRow(
    "Subscribe flow, 4. track it on the session: a session that follows two streams follows both after a kill",
    async (on) => {
      const { sessions } = await followed(on, "tracked-1", 1);
      await on.api.create("tracked-2");
      await on.api.subscribed(sessions[0]!, "tracked-2");
      await on.server.copies("tracked-2", "stuck");
      await on.api.append("tracked-2", "2");
      await on.server.underWay("tracked-2", 1);
      expect(await on.api.published("tracked-1", "1")).toEqual(inline(1));
      return sessions[0]!;
    },
    async (on, session) => {
      expect(await listed(on, session)).toEqual(["tracked-1", "tracked-2"]);
      await have(on, [session], [1, 2]);
    },
  ),
  faultRow(
    "Unsubscribe flow: killed between its steps, nothing is copied any more, and the registry forgets it",
    async (on) => {
      const { stream, sessions } = await followed(on, "leaving", 2);
      const [gone, well] = sessions as [string, string];
      expect(await on.api.published(stream, "0")).toEqual(inline(2));
      await on.server.rules(stream, { method: "removeSubscribers", sessions: [gone], fate: "stuck" });
      void on.api.unsubscribe(gone, stream).catch(() => undefined);
      await eventually(async () => expect(await listed(on, gone)).toEqual([]), 20_000);
      return { stream, gone, well };
    },
    async (on, { stream, gone, well }) => {
      await eventually(async () => expect(await on.api.published(stream, `"on"`)).toEqual(inline(1)), 20_000);
      expect(await on.api.messages(gone)).toEqual([0]);
      expect(await listed(on, gone)).toEqual([]);
      await have(on, [well], (await on.api.call("GET", `/stream/${stream}?offset=-1`)).body);
    },
  ),
  faultRow(
    "Delete session: killed before its stream is deleted from core, it is gone, and a new one of its id inherits nothing",
    async (on) => {
      const { stream, sessions } = await followed(on, "ending", 2);
      const [gone, well] = sessions as [string, string];
      expect(await on.api.published(stream, "0")).toEqual(inline(2));
      await on.server.rules(stream, { method: "remove", sessions: [gone], fate: "stuck" });
      void on.api.delete(gone).catch(() => undefined);
      await eventually(async () => expect((await on.api.session(gone)).status).toBe(404), 20_000);
      return { stream, gone, well };
    },
    async (on, { stream, gone, well }) => {
      await notThere(on, gone);
      await eventually(async () => expect(await on.api.published(stream, "1")).toEqual(inline(1)), 20_000);
      await eventually(async () => expect((await on.api.subscribed(gone, stream)).body.isNewSession).toBe(true));
      await on.api.published(stream, "2");
      await have(on, [gone], [2]);
      await have(on, [well], (await on.api.call("GET", `/stream/${stream}?offset=-1`)).body);
    },
  ),
];
