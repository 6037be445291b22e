/**
 * The engine on Redis 7, a cluster or a single instance: any number of nodes over the same data. `compose` opens it; keepers and
 * features use it through the contract. `test/failover` runs it while masters are killed, stopped, cut off and failed over.
 *
 * - One generic function commits (`lua/commit.lua`): it checks the rev and the owner, plans all writes, then writes, all in one
 *   slot (`keys.ts`). The node that committed last sends the whole head as it must be and as it becomes (`swap.ts`); Redis
 *   compares and parses nothing, which halved a master's cost of an append. Any other case falls back to the generic function,
 *   under the same number.
 * - A rev check alone is not idempotent, because after a lost reply another node has often committed on top. So the head names
 *   the last writer and its commit number; displaced writers are remembered beside it, also past a destroy.
 * - An answer may rest on another node's commit that no replica has. If the operator asks for replicas, reads, conflicts and
 *   fences pass the same barrier as commits (`barriers.ts`).
 * - A lost tail shows as another `master_replid` than that of the last write. The next commit raises the generation and answers
 *   `conflict`, so that rules run again with true positions; a reader beyond the surviving end is told (`410 history-lost`).
 * - Deadlines are hard: an operation is refused when its time is up, and leaves every queue. The outcome of an abandoned commit
 *   is unknown until the entity's next commit completes.
 * - A node that has lost four races in a row gets a turn of a tenth of a second. Otherwise the node nearest to a master would win
 *   every race.
 * - Notifications are hints over sharded pub/sub. Watched entities are also compared with Redis every few seconds, hundreds of
 *   one bucket in one command (`watchers.ts`). Nodes know each other through Redis alone (`peers.ts`).
 *
 * Invariants: a commit is one function call in one slot; after a lost reply Redis recognizes it by its number. Time is the
 * masters'; no safety rests on this node's clock. A refused start leaves nothing running. `docs/redis.md` says what this
 * promises.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import { EMPTY, hex } from "../../core/bytes.ts";
import type { Metric } from "../../core/metric.ts";
import type { World } from "../../core/world.ts";
import {
  type CommitAt,
  type Conflict,
  type Deadline,
  type Done,
  type Effect,
  type Engine,
  EngineError,
  type Entity,
  entity,
  entityOf,
  type Fenced,
  type Held,
  type Hit,
  type Listing,
  type LiveNode,
  type Owner,
  type Page,
  type Row,
  type RowKey,
  type Snapshot,
  type ToldListener,
  type Unwatch,
} from "../contract.ts";
import { newNodeId } from "../nodes.ts";
import { Calls } from "./calls.ts";
import { Commits } from "./commits.ts";
import { Directory } from "./directory.ts";
import { warningsAbout } from "./fitness.ts";
import { BUCKETS, bucketOf, Keys, rowName } from "./keys.ts";
import { RedisMeter } from "./meter.ts";
import { DEFAULT_PREFIX, REDIS_LIMITS, type RedisLimits, type RedisOptions } from "./options.ts";
import { Peers } from "./peers.ts";
import { isSuspect, pageOf, revIn, snapshotOf } from "./replies.ts";
import { Topology } from "./topology.ts";
import { Watchers } from "./watchers.ts";

/** Rejects if no Redis answers, or none that the engine can use. Closing the engine closes its topology. */
export async function openRedis(
  { urls, world, prefix = DEFAULT_PREFIX, limits, warn }: RedisOptions,
  openTopology: typeof Topology.open = Topology.open,
): Promise<Engine> {
  const all = { ...REDIS_LIMITS, ...limits };
  const meter = new RedisMeter();
  const topology = await openTopology(urls, world, all, meter);
  const engine = new RedisEngine(topology, new Keys(prefix), world, all, meter);
  try {
    await complete(topology, world, all.deadlineMs);
    for (const worry of await engine.examineMasters()) warn?.(worry);
    // Loads the library before the first request needs it, and fails if the Redis user may not load it.
    await Promise.all(Array.from({ length: BUCKETS }, (_, bucket) => engine.probe(bucket)));
    await engine.rehearse();
    await engine.start();
    return engine;
  } catch (fault) {
    engine.disconnect();
    throw fault;
  }
}

async function complete(topology: Topology, world: World, deadlineMs: number): Promise<void> {
  const untilMs = world.monotonicMs() + deadlineMs;
  while (!topology.isComplete()) {
    if (world.monotonicMs() > untilMs)
      throw new EngineError("unavailable", "the Redis cluster has slots without a master");
    await new Promise<void>((resolve) => void world.after(50, resolve));
  }
}

class RedisEngine implements Engine {
  readonly exclusive = false;
  readonly shards = BUCKETS;
  readonly deadline: Deadline;
  readonly node: string;
  private readonly calls: Calls;
  private readonly directory: Directory;
  private readonly watchers: Watchers;
  private readonly peers: Peers;
  private readonly commits: Commits;

  constructor(
    private readonly topology: Topology,
    private readonly keys: Keys,
    private readonly world: World,
    private readonly limits: RedisLimits,
    private readonly meter: RedisMeter,
  ) {
    this.deadline = { ms: limits.deadlineMs, now: () => world.monotonicMs() };
    this.calls = new Calls(topology, keys, world, limits, meter);
    this.directory = new Directory(this.calls, keys);
    this.node = newNodeId(world);
    this.commits = new Commits(this.node, this.calls, keys, limits, meter, world);
    this.watchers = new Watchers(topology.subscriber, keys, world, limits, async (bucket, heads) => {
      const found = (await this.calls.command(bucket, ["MGET", ...heads])) as readonly (Buffer | null)[];
      return found.map(revIn);
    });
    this.peers = new Peers(this.node, topology, this.calls, keys, world, limits.connectMs);
    topology.onReconnect(() => this.watchers.subscribeAgain());
  }

  /** Starts the background work. A refused start never comes this far, so it leaves no timer behind. */
  async start(): Promise<void> {
    this.watchers.start();
    await this.peers.start();
  }

  /** Examines each master once, through the first bucket that it has. */
  async examineMasters(): Promise<string[]> {
    const buckets = new Map<string, number>();
    for (let bucket = BUCKETS - 1; bucket >= 0; bucket--) buckets.set(this.topology.nodeOf(bucket).name, bucket);
    const worries = [...buckets].map(async ([name, bucket]) => {
      return warningsAbout(name, String(await this.calls.command(bucket, ["INFO"])), this.limits.waitReplicas);
    });
    return (await Promise.all(worries)).flat();
  }

  async probe(bucket: number): Promise<void> {
    await this.calls.runPassing("rows", bucket, [this.keys.due(bucket), this.keys.barrier(bucket)], ["[", "[", "0"]);
  }

  /**
   * Performs every effect of a commit once, on an entity that no other node knows, so that a missing Redis permission shows at
   * the start.
   */
  async rehearse(): Promise<void> {
    const e = entity("$", "rehearsal", this.node);
    const generation = this.now();
    const begun = await this.tryCommit(e, 0, [
      { op: "begin", generation, at: { generation, seq: 0 } },
      { op: "append", messages: [{ payload: EMPTY, at: 0 }] },
      { op: "trim", through: { generation, seq: 1 }, bytes: 0 },
      { op: "put", table: "t", key: "k", value: EMPTY },
      { op: "drop", table: "t", key: "k" },
      { op: "remind", atMs: Number.MAX_SAFE_INTEGER },
    ]);
    if (begun?.kind === "done") await this.tryCommit(e, begun.rev, [{ op: "destroy" }]);
  }

  /** A part of the cluster that does not answer does not prevent the start. */
  private async tryCommit(e: Entity, rev: number, effects: readonly Effect[]) {
    try {
      return await this.commit(e, { rev }, effects);
    } catch (fault) {
      if (fault instanceof EngineError && fault.code === "unavailable") return undefined;
      if (fault instanceof EngineError) throw fault;
      throw new Error(
        `the Redis user lacks a permission that Sluice needs (docs/redis.md lists them): ${(fault as Error).message}`,
      );
    }
  }

  now(): number {
    return this.calls.clock.now();
  }

  async load(e: Entity, keys: readonly RowKey[]): Promise<Snapshot> {
    const { bucket, head, rows, tombstone } = this.keys.entity(e);
    return snapshotOf(await this.calls.run("load", bucket, [head, rows, tombstone], keys.map(rowName)));
  }

  async commit(e: Entity, at: CommitAt, effects: readonly Effect[]): Promise<Done | Conflict | Fenced> {
    const result = await this.commits.commit(e, at, effects);
    if (result.kind === "done" && effects.length > 0) this.watchers.committed(this.keys.entity(e).head, result.rev);
    return result;
  }

  async rows(e: Entity, table: string, after: string, limit: number): Promise<readonly Row[]> {
    const { bucket, order, rows } = this.keys.entity(e);
    const range = [`(${rowName({ table, key: after })}`, `(${table}\x01`, String(limit)];
    const reply = await this.calls.run("rows", bucket, [order, rows], range);
    const names = reply[3] as unknown as readonly Buffer[];
    const values = reply[4] as readonly Buffer[];
    return names.map((name, i) => ({ key: String(name).slice(table.length + 1), value: values[i]! }));
  }

  async read(e: Entity, after: Position, maxBytes: number): Promise<Page> {
    const { bucket, head, log } = this.keys.entity(e);
    const args = [after.generation, after.seq, maxBytes, this.limits.pageMessages].map(String);
    const look = () => this.calls.run("read", bucket, [head, log], args);
    const reply = await look();
    const page = pageOf(reply);
    if (!isSuspect(reply) || comparePositions(after, page.head.last) <= 0) return page;
    // The reader has seen positions that this master lacks: the end was lost, and an empty commit makes the engine record that.
    await this.commit(e, { rev: 0 }, []);
    return pageOf(await look());
  }

  async claim(e: Entity, node: string, ttlMs: number, held?: Owner): Promise<Owner | Held> {
    const nonce = hex(this.world.randomBytes(12));
    const args = [node, String(ttlMs), nonce, held === undefined ? "" : String(held.epoch), held?.nonce ?? ""];
    const reply = await this.calls.run("claim", bucketOf(e.key), [this.keys.entity(e).owner], args);
    const [first, second] = [String(reply[3]), String(reply[4])];
    if (String(reply[0]) === "owner") return { kind: "owner", epoch: Number(first), nonce: second };
    return { kind: "held", node: first, untilMs: Number(second) };
  }

  async release(e: Entity, owner: Owner): Promise<void> {
    await this.calls.run("release", bucketOf(e.key), [this.keys.entity(e).owner], [String(owner.epoch), owner.nonce]);
  }

  watch(e: Entity, wake: () => void): Unwatch {
    return this.watchers.watch(e, wake);
  }

  async due(shard: number, limit: number): Promise<readonly Entity[]> {
    const range = [this.keys.due(shard), "-inf", String(this.now()), "BYSCORE", "LIMIT", "0", String(limit)];
    const keys = (await this.calls.command(shard, ["ZRANGE", ...range])) as Buffer[];
    return keys.map((key) => entityOf(String(key)));
  }

  list(project: string, kind: string, prefix: string, after: string, limit: number): Promise<Listing> {
    return this.directory.list(project, kind, prefix, after, limit);
  }

  projects(kind: string): Promise<readonly string[]> {
    return this.directory.projects(kind);
  }

  async hit(key: string, limit: number, windowMs: number): Promise<Hit> {
    const args = [String(limit), String(windowMs)];
    const reply = await this.calls.runPassing("hit", bucketOf(key), [this.keys.hit(key)], args);
    const count = Number(reply[3]);
    if (String(reply[0]) === "allowed") return { kind: "allowed", remaining: count };
    return { kind: "limited", retryAfterMs: count };
  }

  nodes(): Promise<readonly LiveNode[]> {
    return this.peers.nodes();
  }

  tell(node: string, bytes: Uint8Array): void {
    this.peers.tell(node, bytes);
  }

  onTold(listener: ToldListener): Unwatch {
    return this.peers.onTold(listener);
  }

  health(): EngineError | undefined {
    return this.calls.health();
  }

  metrics(): readonly Metric[] {
    return this.meter.metrics();
  }

  async close(): Promise<void> {
    await this.peers.close();
    this.disconnect();
  }

  /** Ends as a kill would: Redis hears nothing. */
  disconnect(): void {
    this.watchers.close();
    this.peers.stop();
    this.calls.close();
    this.topology.close();
  }
}
