/** Nodes while the master that holds their records is killed: they find each other again, and hear each other on every channel. */
import { expect, it, onTestFinished } from "vitest";
import { NODE_ALIVE_MS } from "../../packages/server/src/engine/contract.ts";
import { openRedis } from "../../packages/server/src/engine/redis/open.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { eventually } from "../support/eventually.ts";
import { NERVOUS_MS, RedisCluster } from "../support/redis.ts";
import { takeOver } from "./take-over.ts";

/** So many that each master carries the channels of some. */
const NODES = 8;

it("nodes list and tell each other again after their master was killed", { timeout: 120_000 }, async () => {
  const cluster = await RedisCluster.start({ nodeTimeoutMs: NERVOUS_MS });
  onTestFinished(() => cluster.close());
  const engines = await Promise.all(
    Array.from({ length: NODES }, () => openRedis({ urls: cluster.urls, world: realWorld() })),
  );
  onTestFinished(async () => void (await Promise.all(engines.map((engine) => engine.close()))));
  const ids = engines.map(({ node }) => node).sort();
  const heard = new Map<string, Set<string>>();
  const allTold = (round: number) =>
    eventually(async () => {
      for (const engine of engines) expect((await engine.nodes()).map(({ id }) => id).sort()).toEqual(ids);
      for (const from of engines) for (const to of engines) from.tell(to.node, Uint8Array.of(round));
      for (const { node } of engines) expect(heard.get(`${round} ${node}`)?.size ?? 0, node).toBe(NODES);
    }, 60_000);
  for (const engine of engines) {
    engine.onTold(([round], from) => {
      const key = `${round} ${engine.node}`;
      heard.set(key, (heard.get(key) ?? new Set()).add(from));
    });
  }
  await allTold(1);

  const masters = await cluster.masters();
  const found = await Promise.all(masters.map((node) => node.admin((redis) => redis.keys("sluice:{0}:nodes"))));
  const master = masters[found.findIndex(({ length }) => length > 0)]!;
  const replicas = await cluster.replicas();
  const ports = await Promise.all(replicas.map((node) => node.masterPort()));
  await takeOver(master, replicas[ports.indexOf(master.port)]!);
  const takenOverMs = engines[0]!.now();
  await allTold(2);
  // Every record is renewed at the new master.
  await eventually(async () => {
    for (const { aliveUntilMs } of await engines[0]!.nodes()) {
      expect(aliveUntilMs).toBeGreaterThan(takenOverMs + NODE_ALIVE_MS);
    }
  });
  await allTold(3);
});
