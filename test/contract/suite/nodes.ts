/** What nodes know of each other: who lives, under which id, and messages that arrive whole, if they arrive. */
import { expect } from "vitest";
import {
  type Engine,
  MAX_TOLD_BYTES,
  NODE_ALIVE_MS,
  NODE_RENEW_MS,
} from "../../../packages/server/src/engine/contract.ts";
import { eventually } from "../../support/eventually.ts";
import { type Behaviour, bytes, stream, text } from "./fixture.ts";

const a = stream("a");
/** How far an engine's idea of the time may be off where the time is another machine's. */
const ESTIMATE_MS = 200;

export function nodes(behaviour: Behaviour): void {
  behaviour("list themselves once they are open, with a record that ends soon", async (on) => {
    const { engine } = on;
    const found = await engine.nodes();
    expect(found.map(({ id }) => id)).toEqual([engine.node]);
    expect(found[0]!.aliveUntilMs).toBeGreaterThan(engine.now() - ESTIMATE_MS);
    expect(found[0]!.aliveUntilMs).toBeLessThanOrEqual(engine.now() + NODE_ALIVE_MS + ESTIMATE_MS);
  });

  behaviour("renew their records for as long as they are open", async (on) => {
    const peer = await on.openPeer();
    const living = [on.engine, ...(peer === undefined ? [] : [peer])].map(({ node }) => node);
    const [first] = await on.engine.nodes();
    await on.advance(NODE_ALIVE_MS + NODE_RENEW_MS);
    const found = await on.engine.nodes();
    expect(found.map(({ id }) => id).sort()).toEqual(living.sort());
    const renewed = found.find(({ id }) => id === first!.id)!;
    expect(renewed.aliveUntilMs).toBeGreaterThanOrEqual(first!.aliveUntilMs + NODE_ALIVE_MS);
  });

  behaviour("have another id in a later life, and what the earlier one is told is lost", async (on) => {
    const earlier = on.engine.node;
    if (!(await on.reopen())) return;
    const { engine } = on;
    expect(engine.node).not.toBe(earlier);
    const heard = heardBy(engine);
    engine.tell(earlier, bytes("too late"));
    await arrives(heard, engine, engine, "in time");
    expect(heard).not.toContain(`too late from ${engine.node}`);
  });

  behaviour("hear what they tell themselves, after the telling, and from which node", async (on) => {
    const { engine } = on;
    const [one, two] = [heardBy(engine), heardBy(engine)];
    let isTelling = false;
    engine.onTold(() => expect(isTelling).toBe(false));
    await eventually(() => {
      isTelling = true;
      engine.tell(engine.node, bytes("hello"));
      isTelling = false;
      for (const heard of [one, two]) expect(heard).toContain(`hello from ${engine.node}`);
    });
    expect(new Set([...one, ...two])).toEqual(new Set([`hello from ${engine.node}`]));
  });

  behaviour("may change the bytes as soon as they have told them", async (on) => {
    const { engine } = on;
    const heard = heardBy(engine);
    await eventually(() => {
      const said = bytes("before");
      engine.tell(engine.node, said);
      said.set(bytes("behind"));
      expect(heard.length).toBeGreaterThan(0);
    });
    expect(new Set(heard)).toEqual(new Set([`before from ${engine.node}`]));
  });

  behaviour("tell every byte there is, and nothing at all, up to the bound and not beyond it", async (on) => {
    const { engine } = on;
    const heard: Uint8Array[] = [];
    engine.onTold((told) => heard.push(told));
    const longest = Uint8Array.from({ length: MAX_TOLD_BYTES }, (_, i) => i % 256);
    for (const said of [longest, new Uint8Array(0), bytes("é \0 \r\n")]) {
      await eventually(() => {
        engine.tell(engine.node, said);
        expect(heard.map((one) => Buffer.compare(one, said))).toContain(0);
      });
    }
    expect(() => engine.tell(engine.node, new Uint8Array(MAX_TOLD_BYTES + 1))).toThrow(RangeError);
    expect(() => engine.tell("unknown", new Uint8Array(MAX_TOLD_BYTES + 1))).toThrow(RangeError);
  });

  behaviour("lose what they tell a node that is not there, in silence", async (on) => {
    const { engine } = on;
    const heard = heardBy(engine);
    for (const node of ["", "unknown", `${engine.node}0`, "a b", "{x}", "é"]) engine.tell(node, bytes("lost"));
    await arrives(heard, engine, engine, "kept");
    expect(new Set(heard)).toEqual(new Set([`kept from ${engine.node}`]));
  });

  behaviour("call a listener until it leaves, and the others beyond that", async (on) => {
    const { engine } = on;
    let calls = 0;
    const leave = engine.onTold(() => calls++);
    const others = heardBy(engine);
    await arrives(others, engine, engine, "one");
    expect(calls).toBeGreaterThan(0);
    leave();
    leave();
    const before = calls;
    await arrives(others, engine, engine, "two");
    expect(calls).toBe(before);
  });

  behaviour("of one store list each other, and tell each other in both directions", async (on) => {
    const peer = await on.openPeer();
    if (peer === undefined) return;
    const { engine } = on;
    expect(peer.node).not.toBe(engine.node);
    for (const one of [engine, peer]) {
      expect((await one.nodes()).map(({ id }) => id).sort()).toEqual([engine.node, peer.node].sort());
    }
    const [here, there] = [heardBy(engine), heardBy(peer)];
    await arrives(there, engine, peer, "to the peer");
    await arrives(here, peer, engine, "and back");
    expect(new Set(there)).toEqual(new Set([`to the peer from ${engine.node}`]));
    expect(new Set(here)).toEqual(new Set([`and back from ${peer.node}`]));
  });

  behaviour("reach the owner of an entity by the id that a refused claim names", async (on) => {
    const { engine } = on;
    const claimant = (await on.openPeer()) ?? engine;
    expect((await engine.claim(a, engine.node, 60_000)).kind).toBe("owner");
    const held = await claimant.claim(a, claimant.node, 60_000);
    if (held.kind !== "held") throw new Error(held.kind);
    expect((await claimant.nodes()).map(({ id }) => id)).toContain(held.node);
    const heard = heardBy(engine);
    await eventually(() => {
      claimant.tell(held.node, bytes("to the owner"));
      expect(heard).toContain(`to the owner from ${claimant.node}`);
    });
  });

  behaviour("that close are gone from the list at once, and telling them does no harm", async (on) => {
    const peer = await on.openPeer();
    if (peer === undefined) return;
    const { engine } = on;
    expect(await engine.nodes()).toHaveLength(2);
    await peer.close();
    expect((await engine.nodes()).map(({ id }) => id)).toEqual([engine.node]);
    engine.tell(peer.node, bytes("gone"));
    const heard = heardBy(engine);
    await arrives(heard, engine, engine, "still here");
  });
}

/** What a node hears from here on, and from which node. */
function heardBy(engine: Engine): string[] {
  const heard: string[] = [];
  engine.onTold((told, from) => heard.push(`${text(told)} from ${from}`));
  return heard;
}

/** Told until it is heard: any single message may be lost. */
async function arrives(heard: readonly string[], from: Engine, to: Engine, said: string): Promise<void> {
  await eventually(() => {
    from.tell(to.node, bytes(said));
    expect(heard).toContain(`${said} from ${from.node}`);
  });
}
