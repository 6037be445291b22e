/** What an inbox makes of a copy: it applies only onto its predecessor, and only to the session and the subscription it is for. */
import { formatOffset, type Position } from "@sluice/protocol";
import { beforeEach, describe, expect, it } from "vitest";
import { type Engine, entity, type LoggedMessage } from "../../packages/server/src/engine/contract.ts";
import { Keepers } from "../../packages/server/src/engine/keeper.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { Copy } from "../../packages/server/src/sessions/copy.ts";
import { SESSION_LIMITS } from "../../packages/server/src/sessions/limits.ts";
import { type Joined, leaveRule } from "../../packages/server/src/sessions/session-rules.ts";
import { SESSION_ROW, sessionEntity, subscriptionTable } from "../../packages/server/src/sessions/state.ts";
import { LocalStreamPort } from "../../packages/server/src/sessions/stream-port.ts";
import { Streams } from "../../packages/server/src/streams/service.ts";
import { META } from "../../packages/server/src/streams/state.ts";
import { uuid } from "./stage.ts";

const ASKER = { subject: undefined, isAdmin: true };
const at = (seq: number): Position => ({ generation: 7, seq });

/** The messages after `prev` up to `through`, each named by its number. */
function copyOf(prev: number, through: number): Copy {
  const logged: LoggedMessage[] = [];
  for (let seq = prev + 1; seq <= through; seq++) {
    logged.push({ payload: new TextEncoder().encode(`${seq} `), at: 1, position: at(seq) });
  }
  return new Copy({ stream: "s", contentType: "text/plain", prev: at(prev), logged, fanoutSeq: 1 });
}

describe("A copy into an inbox", () => {
  let engine: Engine;
  let keepers: Keepers;
  let core: LocalStreamPort;
  let id: string;
  let joined: Joined;

  async function join(start: number): Promise<Joined> {
    const ask = { asker: ASKER, stream: "s", name: "n", format: "raw", contentType: "text/plain", start: at(start) };
    return (await core.join("p", id, ask as Parameters<LocalStreamPort["join"]>[2])) as Joined;
  }

  beforeEach(async () => {
    const world = realWorld();
    engine = openMemory({ world });
    keepers = new Keepers(engine, (task) => world.soon(task));
    core = new LocalStreamPort(new Streams(engine, keepers, world), keepers, SESSION_LIMITS);
    id = uuid();
    joined = await join(10);
  });

  const post = (prev: number, through: number, { incarnation, epoch } = addressOf(joined)) =>
    core.deliver("p", id, copyOf(prev, through), { incarnation, epoch });

  function addressOf({ incarnation, subscription }: Joined) {
    return { incarnation, epoch: subscription.epoch };
  }

  async function inbox(): Promise<string> {
    const { messages } = await engine.read(entity("p", "session", `session:${id}`), { generation: 0, seq: 0 }, 10_000);
    return messages.map(({ payload }) => new TextDecoder().decode(payload)).join("");
  }

  it("applies onto its predecessor", async () => {
    expect(await post(10, 12)).toEqual({ kind: "applied", at: at(12) });
    expect(await post(12, 13)).toEqual({ kind: "applied", at: at(13) });
    expect(await inbox()).toBe("11 12 13 ");
  });

  it("is recognised when it comes again, whole or in part", async () => {
    await post(10, 13);
    expect(await post(10, 13)).toEqual({ kind: "duplicate", at: at(13) });
    expect(await post(10, 12)).toEqual({ kind: "duplicate", at: at(13) });
    expect(await inbox()).toBe("11 12 13 ");
  });

  it("that overlaps applies with what is lacking", async () => {
    await post(10, 12);
    expect(await post(11, 14)).toEqual({ kind: "applied", at: at(14) });
    expect(await inbox()).toBe("11 12 13 14 ");
  });

  it("does not apply when something is missing before it, and tells how far the inbox is", async () => {
    await post(10, 11);
    expect(await post(12, 13)).toEqual({ kind: "lagging", at: at(11) });
    expect(await inbox()).toBe("11 ");
    expect(await post(11, 13)).toEqual({ kind: "applied", at: at(13) });
  });

  it("of nothing moves the inbox on without adding to it", async () => {
    const nothing = Copy.ofNothing("s", at(10), at(15), 1);
    expect(await core.deliver("p", id, nothing, addressOf(joined))).toEqual({ kind: "applied", at: at(15) });
    expect(await post(15, 16)).toEqual({ kind: "applied", at: at(16) });
    expect(await inbox()).toBe("16 ");
  });

  it("is stale for another subscription of the session, and for another session of the same id", async () => {
    const { incarnation, epoch } = addressOf(joined);
    expect(await post(10, 11, { incarnation, epoch: epoch + 1 })).toMatchObject({ kind: "stale" });
    expect(await post(10, 11, { incarnation: "another", epoch })).toMatchObject({ kind: "stale" });
    expect(await inbox()).toBe("");
  });

  it("is stale once the session has left the stream; a new subscription takes nothing of the one before", async () => {
    const e = sessionEntity("p", id);
    const keys = [META, SESSION_ROW, subscriptionTable.at("s")];
    await keepers.submit(e, keys, (view, now) => leaveRule(view, now, "s", ASKER));
    expect(await post(10, 11)).toEqual({ kind: "stale", borrows: false });
    const again = await join(20);
    expect(await post(10, 11)).toMatchObject({ kind: "stale" });
    expect(await post(20, 21, addressOf(again))).toEqual({ kind: "applied", at: at(21) });
    expect(await inbox()).toBe("21 ");
  });

  it("in an envelope tells where it comes from", async () => {
    id = uuid();
    const ask = { asker: ASKER, stream: "s", name: "n", format: "envelope", contentType: "text/plain", start: at(0) };
    const wrapped = (await core.join("p", id, ask as Parameters<LocalStreamPort["join"]>[2])) as Joined;
    await core.deliver("p", id, copyOf(0, 1), addressOf(wrapped));
    expect(JSON.parse(await inbox())).toEqual({
      stream: "s",
      offset: formatOffset(at(1)),
      contentType: "text/plain",
      payload: "1 ",
    });
  });
});
