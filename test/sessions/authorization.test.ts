/** The scope that each action on sessions needs, and what a callback of the embedding program is asked. */
import { describe, expect, it } from "vitest";
import { mint } from "../../packages/server/src/auth/mint.ts";
import type { Action } from "../../packages/server/src/core/action.ts";
import { Api } from "./api.ts";
import { type Stage, stage, uuid } from "./stage.ts";

const SECRET = "the secret of the default project, long enough";
const AUTH = { projects: { default: { secrets: [SECRET] } } };

async function as(on: Stage, scope: string, sub = "ada"): Promise<Api> {
  return new Api(on.url, "default", await mint(SECRET, { scope, sub, ttlSeconds: 3_600 }, on.now()));
}

/** Clients with and without scopes, and a session that each of them may name. */
async function callers(on: Stage) {
  const both = await as(on, "read write");
  const session = uuid();
  await both.create("s");
  await both.subscribed(session, "s");
  return { session, both, read: await as(on, "read"), write: await as(on, "write"), nobody: on.api };
}

describe("Authentication", () => {
  it("publishing needs the scope write", async () => {
    const { read, write, nobody } = await callers(await stage("memory", AUTH));
    expect((await nobody.publish("s", "1")).status).toBe(401);
    expect(await read.publish("s", "1")).toMatchObject({ status: 403, body: { code: "forbidden" } });
    expect((await write.publish("s", "1")).status).toBe(204);
  });

  it("unsubscribing needs the scope write", async () => {
    const { session, read, write, nobody } = await callers(await stage("memory", AUTH));
    expect((await nobody.unsubscribe(session, "s")).status).toBe(401);
    expect((await read.unsubscribe(session, "s")).status).toBe(403);
    expect((await read.session(session)).body.subscriptions).toHaveLength(1);
    expect((await write.unsubscribe(session, "s")).status).toBe(204);
  });

  it("deleting a session needs the scope write", async () => {
    const { session, read, write, nobody } = await callers(await stage("memory", AUTH));
    expect((await nobody.delete(session)).status).toBe(401);
    expect((await read.delete(session)).status).toBe(403);
    expect((await write.delete(session)).status).toBe(204);
  });

  it("subscribing, reading a session and touching it need the scope read or write", async () => {
    const { session, read, write, nobody } = await callers(await stage("memory", AUTH));
    for (const [caller, status] of [
      [nobody, 401],
      [read, 200],
      [write, 200],
    ] as const) {
      expect((await caller.subscribe(session, "s")).status).toBe(status);
      expect((await caller.session(session)).status).toBe(status);
      expect((await caller.touch(session)).status).toBe(status);
    }
  });

  it("reading the session stream needs the scope read, as for any stream", async () => {
    const { session, read, write, nobody } = await callers(await stage("memory", AUTH));
    expect((await nobody.inbox(session)).status).toBe(401);
    expect((await write.inbox(session)).status).toBe(403);
    expect((await read.inbox(session)).status).toBe(200);
  });

  it("a custom callback receives the action, parsed: project and ids, whatever the spelling", async () => {
    const asked: Action[] = [];
    const { api, url } = await stage("memory", {
      authorize: (action) => {
        asked.push(action);
        return { subject: "ada" };
      },
    });
    const session = uuid();
    await api.create("a/b");
    asked.length = 0;
    await api.subscribe(session.toUpperCase(), "a/b");
    await api.publish("a%2Fb", "1");
    await api.session(session.toUpperCase());
    await api.touch(session);
    await api.inbox(session);
    await api.unsubscribe(session, "a/b");
    await new Api(url).delete(session);
    const given = asked.map(({ action, project, stream, session: id }) => [action, project, stream, id]);
    expect(given).toEqual([
      ["subscribe", "default", undefined, undefined],
      ["subscribe", "default", "a/b", session],
      ["publish", "default", "a/b", undefined],
      ["session.get", "default", undefined, session],
      ["session.touch", "default", undefined, session],
      ["stream.read", "default", `session:${session}`, session],
      ["unsubscribe", "default", undefined, undefined],
      ["unsubscribe", "default", "a/b", session],
      ["session.delete", "default", undefined, session],
    ]);
  });
});
