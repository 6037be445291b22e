/** Who is live on a stream: lists and events, on several nodes, and after a node has died. */
import { expect, it, vi } from "vitest";
import { mint } from "../../packages/server/src/auth/mint.ts";
import { EngineError } from "../../packages/server/src/engine/contract.ts";
import { presenceEntity } from "../../packages/server/src/live/presence-rules.ts";
import { eventually } from "../support/eventually.ts";
import { FakeSink } from "../support/fake-sink.ts";
import { type Cluster, type LiveClient, type LiveNode, openNode, openNodes } from "./nodes.ts";

interface Told {
  readonly event: string;
  readonly member: { readonly sessionId: string; readonly state?: unknown };
}

const told = (client: LiveClient) =>
  (client.events as unknown as (Told & { type: string })[])
    .filter(({ type }) => type === "presence")
    .map(({ event, member }) => [event, member.sessionId, member.state]);

const members = async (node: LiveNode): Promise<string[]> =>
  (await node.done("GET", "/v1/presence/a%2Fb")).members.map(({ sessionId }: { sessionId: string }) => sessionId);

/** A session that is connected and shown on a/b. */
async function present(node: LiveNode, state?: unknown) {
  const sessionId = await node.mint();
  await node.subscribe(sessionId, "a/b", undefined, { presence: true, ...(state !== undefined && { state }) });
  const client = await node.connect(sessionId);
  await eventually(async () => expect(await members(node)).toContain(sessionId));
  return { sessionId, client };
}

it("lists the connected sessions that asked to be shown, with subject, time and state", async () => {
  const secret = "the secret of the default project";
  const node = openNode({ projects: { default: { secrets: [secret] } } });
  const token = await mint(secret, { scope: "read write", sub: "ada", ttlSeconds: 60 }, node.world.now());
  await node.done("PUT", "/v1/stream/a/b", { token });
  const [shown, hidden] = [await node.mint(token), await node.mint(token)];
  await node.subscribe(shown, "a/b", token, { presence: true, state: { cursor: 3 } });
  await node.subscribe(hidden, "a/b", token);
  const list = async () => (await node.done("GET", "/v1/presence/a/b", { token })).members;
  expect(await list()).toEqual([]);
  for (const sessionId of [shown, hidden]) await node.connect(sessionId, { token });
  const member = { sessionId: shown, subject: "ada", since: node.world.now(), state: { cursor: 3 } };
  await eventually(async () => expect(await list()).toEqual([member]));
});

it("tells members on every node who comes, changes and goes, and a new member who is there", async () => {
  const { nodes } = openNodes(2);
  const [here, there] = [nodes[0]!, nodes[1]!];
  await here.create("a/b");
  const first = await present(here, 1);
  const second = await present(there, 2);
  await eventually(() => expect(told(second.client)).toContainEqual(["join", first.sessionId, 1]));
  await eventually(() => expect(told(first.client)).toContainEqual(["join", second.sessionId, 2]));
  await there.subscribe(second.sessionId, "a/b", undefined, { presence: true, state: 3 });
  await eventually(() => expect(told(first.client).at(-1)).toEqual(["update", second.sessionId, 3]));
  second.client.leave();
  await eventually(() => expect(told(first.client).at(-1)).toEqual(["leave", second.sessionId, 3]));
  expect(await members(there)).toEqual([first.sessionId]);
});

it("shows a session no more after it unsubscribes or takes presence back", async () => {
  const node = openNode();
  await node.create("a/b");
  const [first, second] = [await present(node), await present(node)];
  await node.unsubscribe(first.sessionId, "a/b");
  await eventually(async () => expect(await members(node)).toEqual([second.sessionId]));
  await node.subscribe(second.sessionId, "a/b");
  await eventually(async () => expect(await members(node)).toEqual([]));
  expect(node.app.live.presence.size).toBe(0);
});

it("shows the state that a session asked for last, also after retention took messages that were not pushed", async () => {
  const node = openNode();
  await node.create("a/b", { "content-type": "application/json", "stream-max-messages": "2" });
  const sessionId = await node.mint();
  const sink = new FakeSink(false);
  const client = await node.connect(sessionId, { sink });
  await node.subscribe(sessionId, "a/b");
  await eventually(() => expect(node.app.live.hub.followed).toBe(1));
  await node.subscribe(sessionId, "a/b", undefined, { presence: true });
  await eventually(async () => expect(await members(node)).toEqual([sessionId]));
  for (let i = 0; i < 10; i++) await node.append("a/b", i);
  sink.take();
  await client.next("notify", "a/b");
  await new Promise((resolve) => setImmediate(resolve));
  expect(node.app.live.presence.size).toBe(1);
  expect(await members(node)).toEqual([sessionId]);
});

it("keeps a member over a reconnect to another node", async () => {
  const { nodes, cluster } = openNodes(2);
  const [here, there] = [nodes[0]!, nodes[1]!];
  await here.create("a/b");
  const watcher = await present(here);
  const { sessionId, client } = await present(here, "x");
  await there.connect(sessionId);
  await client.next("bye");
  client.leave();
  const both = expect.arrayContaining([watcher.sessionId, sessionId]);
  await eventually(async () => expect(await members(here)).toEqual(both));
  // Both connections have had their say; the older one removes nothing any more.
  cluster.world.advance(5_000);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(await members(there)).toEqual(both);
  const last = told(watcher.client)
    .filter(([, id]) => id === sessionId)
    .at(-1);
  expect(last).toEqual(["join", sessionId, "x"]);
});

const rowsOf = async (cluster: Cluster) => {
  const rows = await cluster.engine.rows(presenceEntity("default", "a/b"), "member", "", 10);
  return rows.map(({ key }) => key);
};

it("forgets the members of a node that died within seconds, and removes their rows", async () => {
  const { nodes, cluster } = openNodes(2);
  const [here, there] = [nodes[0]!, nodes[1]!];
  await here.create("a/b");
  const watcher = await present(here);
  const { sessionId } = await present(there);
  await eventually(() => expect(told(watcher.client)).toContainEqual(["join", sessionId, undefined]));
  cluster.alive.delete("node-1");
  expect(await members(here)).toEqual([watcher.sessionId]);
  cluster.world.advance(1_000);
  await eventually(() => expect(told(watcher.client).at(-1)).toEqual(["leave", sessionId, undefined]));
  await eventually(async () => expect(await rowsOf(cluster)).toEqual([watcher.sessionId]));
});

it("shows the members of a node again that was taken for dead and was not", async () => {
  const { nodes, cluster } = openNodes(2);
  const [here, there] = [nodes[0]!, nodes[1]!];
  await here.create("a/b");
  const watcher = await present(here);
  const { sessionId } = await present(there);
  cluster.alive.delete("node-1");
  await eventually(async () => {
    cluster.world.advance(1_000);
    expect(await rowsOf(cluster)).toEqual([watcher.sessionId]);
  });
  cluster.alive.add("node-1");
  await eventually(async () => {
    cluster.world.advance(1_000);
    expect((await members(here)).sort()).toEqual([watcher.sessionId, sessionId].sort());
  });
});

it("removes the members of a dead node from a stream that no tab looks at", async () => {
  const { nodes, cluster } = openNodes(2);
  const [here, there] = [nodes[0]!, nodes[1]!];
  await here.create("a/b");
  await present(there);
  cluster.alive.delete("node-1");
  cluster.world.advance(60_000);
  await here.app.sweep();
  expect(await rowsOf(cluster)).toEqual([]);
});

it("refuses a state above 1 KiB, and a stream that does not exist", async () => {
  const node = openNode();
  await node.create("a/b");
  const sessionId = await node.mint();
  const body = { sessionId, streamId: "a/b", presence: true, state: "x".repeat(1_023) };
  expect((await node.call("POST", "/v1/subscriptions", { body })).body).toMatchObject({ code: "bad-body" });
  expect((await node.call("GET", "/v1/presence/nowhere")).body).toMatchObject({ code: "stream-not-found" });
});

it("keeps no timer after the server has stopped, also if the store does not answer any more", async () => {
  const node = openNode();
  await node.create("a/b");
  const { client } = await present(node);
  const down = new EngineError("unavailable", "the store does not answer");
  const commit = vi.spyOn(node.cluster.engine, "commit").mockRejectedValue(down);
  client.leave();
  await eventually(() => expect(commit).toHaveBeenCalled());
  await node.app.stop();
  expect([node.app.live.presence.size, node.world.nextInMs()]).toEqual([0, Number.POSITIVE_INFINITY]);
});
