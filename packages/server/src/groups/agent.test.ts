import { expect, test } from "vitest";
import { entity } from "../engine/contract.ts";
import { GroupAgent, NoAgent, type SessionEffect } from "./agent.ts";
import type { Carrier, Envelope } from "./carrier.ts";
import { GROUP_TIMERS } from "./defaults.ts";
import type { FromLeader } from "./messages.ts";

const group = entity("p", "group", "share/g/a");

/** An agent whose messages are kept, with a clock that is moved by hand. */
function agentOf() {
  const sent: Envelope[] = [];
  let now = 0;
  let ids = 0;
  const timers = new Set<{ atMs: number; task: () => void }>();
  const world = {
    now: () => now,
    monotonicMs: () => now,
    soon: (task: () => void) => task(),
    random: () => 0.5,
    randomBytes: (count: number) => new Uint8Array(count).fill(++ids),
    after: (ms: number, task: () => void) => {
      const timer = { atMs: now + ms, task };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
  };
  const carrier = { node: "here", send: (_: string, envelope: Envelope) => void sent.push(envelope) };
  const agent = new GroupAgent({ world, carrier: carrier as unknown as Carrier, timers: GROUP_TIMERS });
  const pass = (ms: number) => {
    now += ms;
    for (const timer of [...timers]) {
      if (timer.atMs > now) continue;
      timers.delete(timer);
      timer.task();
    }
  };
  const tell = (to: string, message: FromLeader, term = 1) =>
    agent.take({ groups: 1, group: group.key, to, leader: { node: "there", term }, message });
  const idOf = (envelope: Envelope | undefined) => (envelope && "from" in envelope ? envelope.from.id : "");
  return { agent, sent, timers, pass, tell, idOf };
}

test("a subscription looks for its leader, and passes on what its borrower is granted", () => {
  const { agent, sent, pass, tell, idOf } = agentOf();
  const effects: SessionEffect[] = [];
  const subscription = agent.subscribe({ group, member: "m" }, (effect) => effects.push(effect));
  pass(0);
  expect(sent).toMatchObject([{ group: group.key, message: { type: "leader_wanted", member: "m" } }]);
  const id = idOf(sent[0]);
  tell(id, { type: "leader_connect_response" });
  expect(subscription.isHeld()).toBe(false);
  tell(id, { type: "ping_response", sentMs: 0 });
  expect(subscription.isHeld()).toBe(true);
  const position = { generation: 1, seq: 1 };
  tell(id, { type: "grant", stream: "a", epoch: 9, position });
  expect(effects).toEqual([
    { kind: "connected" },
    { kind: "resumed" },
    { kind: "granted", stream: "a", epoch: 9, position },
  ]);
});

test("a borrower that must start from scratch is replaced by one with another id", () => {
  const { agent, sent, pass, tell, idOf } = agentOf();
  const effects: SessionEffect[] = [];
  agent.subscribe({ group, member: "m" }, (effect) => effects.push(effect));
  pass(0);
  const id = idOf(sent[0]);
  tell(id, { type: "leader_connect_response" });
  tell(id, { type: "invalidate" });
  pass(0);
  expect(effects.at(-1)).toEqual({ kind: "destroyed", isRestart: true });
  expect(sent.at(-1)).toMatchObject({ message: { type: "leader_wanted" } });
  expect(idOf(sent.at(-1))).not.toBe(id);
  expect(agent.size).toBe(1);
});

test("several borrowers of one member and group stand side by side", () => {
  const { agent, pass, sent, idOf } = agentOf();
  agent.subscribe({ group, member: "m" }, () => {});
  agent.subscribe({ group, member: "m" }, () => {});
  pass(0);
  expect(new Set(sent.map(idOf)).size).toBe(2);
  expect(agent.size).toBe(2);
});

test("a leader that grants to a borrower that is gone is told to forget it", () => {
  const { sent, tell } = agentOf();
  tell("gone", { type: "grant", stream: "a", epoch: 9, position: { generation: 1, seq: 1 } });
  expect(sent).toMatchObject([{ from: { id: "gone" }, message: { type: "disconnect", progress: [] } }]);
  tell("gone", { type: "disconnect_response" });
  expect(sent).toHaveLength(1);
});

test("a subscription that has ended leaves no timer behind", () => {
  const { agent, pass, timers } = agentOf();
  const subscription = agent.subscribe({ group, member: "m" }, () => {});
  pass(0);
  subscription.disconnect();
  expect([agent.size, timers.size]).toEqual([0, 0]);
});

test("the stub subscribes to nothing, and ends at once", () => {
  const effects: SessionEffect[] = [];
  const subscription = new NoAgent().subscribe({ group, member: "m" }, (effect) => effects.push(effect));
  expect(subscription.isHeld()).toBe(false);
  subscription.progress([]);
  expect(effects).toEqual([]);
  subscription.unsubscribe();
  expect(effects).toEqual([{ kind: "destroyed", isRestart: false }]);
});
