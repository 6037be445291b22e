import { expect, it } from "vitest";
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import { stage, uuid } from "./stage.ts";

const asker = (subject: string) => ({ subject, isAdmin: false });

it("a session exists without an inbox or a stream, and ends like any other", async () => {
  const on = await stage("memory");
  const { service } = on.app.sessions;
  const id = uuid();
  const first = await service.open("default", id, FULL_ACCESS);
  expect(first).toMatchObject({ kind: "open", isNew: true });
  expect(await service.get("default", id, FULL_ACCESS)).toMatchObject({ subscriptions: [] });
  expect((await on.api.call("GET", `/stream/session:${id}?offset=-1`)).status).toBe(404);
  on.pass(60_000);
  const again = await service.open("default", id, FULL_ACCESS);
  expect(again).toMatchObject({
    kind: "open",
    isNew: false,
    incarnation: (first as { incarnation: string }).incarnation,
  });
  expect((again as { expiresAt: number }).expiresAt).toBe((first as { expiresAt: number }).expiresAt + 60_000);
  expect(await service.delete("default", id, FULL_ACCESS)).toBe("deleted");
  expect(await service.get("default", id, FULL_ACCESS)).toBeUndefined();
  const next = await service.open("default", id, FULL_ACCESS);
  expect(next).toMatchObject({ isNew: true });
  expect((next as { incarnation: string }).incarnation).not.toBe((first as { incarnation: string }).incarnation);
});

it("its first subscription by copy gives it an inbox, of that stream's content type", async () => {
  const on = await stage("memory");
  const { service } = on.app.sessions;
  const id = uuid();
  await service.open("default", id, FULL_ACCESS);
  await on.api.create("s", "text/plain");
  await on.api.create("t", "application/json");
  expect(await on.api.subscribe(id, "s")).toMatchObject({ status: 200, body: { isNewSession: false } });
  await on.api.published("s", "hello", "text/plain");
  expect((await on.api.call("GET", `/stream/session:${id}?offset=-1`)).text).toBe("hello");
  expect(await on.api.subscribe(id, "t")).toMatchObject({ status: 409, body: { code: "content-type-mismatch" } });
});

it("a session of another subject cannot be opened, and one that is over makes room for a new one", async () => {
  const on = await stage("memory");
  const { service } = on.app.sessions;
  const id = uuid();
  await service.open("default", id, asker("alice"));
  expect(await service.open("default", id, asker("bob"))).toEqual({ kind: "anothers" });
  on.pass(3_600_000);
  expect(await service.open("default", id, asker("bob"))).toMatchObject({ kind: "open", isNew: true });
});
