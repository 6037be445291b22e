/**
 * Knows which master has which bucket. On a cluster ioredis keeps the slots; `slots-watch.ts` compares them every second and
 * tells ioredis when to ask again. A single Redis has them all. It connects to a master at the first need, and again after a loss.
 */
import { Cluster, Redis, type RedisOptions } from "ioredis";
import type { World } from "../../core/world.ts";
import { EngineError } from "../contract.ts";
import { BUCKETS, Keys } from "./keys.ts";
import type { RedisMeter } from "./meter.ts";
import { type Access, RedisNode } from "./node.ts";
import type { RedisLimits } from "./options.ts";
import { SlotsWatch } from "./slots-watch.ts";

/**
 * A client with sharded pub/sub. A cluster's client opens connections of its own for it; a single Redis needs a second client.
 */
export type Subscriber = Pick<Redis, "ssubscribe" | "sunsubscribe" | "on">;

export class Topology {
  private readonly nodes = new Map<string, RedisNode>();
  private readonly slotsWatch: SlotsWatch | undefined;
  isClosed = false;

  private constructor(
    readonly subscriber: Subscriber,
    private readonly cluster: Cluster | undefined,
    /** The slot of each bucket. */
    private readonly slots: readonly number[],
    private readonly seed: Access,
    private readonly world: World,
    private readonly limits: RedisLimits,
    private readonly meter: RedisMeter,
  ) {
    if (cluster === undefined) return;
    this.slotsWatch = new SlotsWatch({
      known: () => cluster.slots,
      refresh: () => cluster.refreshSlotsCache(),
      masters: () => this.masters(),
      connect: (name) => this.connect(name),
      slots,
      everyMs: limits.refreshMs,
      world,
    });
  }

  /** Asks the first address that answers whether it belongs to a cluster. */
  static async open(urls: readonly string[], world: World, limits: RedisLimits, meter: RedisMeter): Promise<Topology> {
    const addresses = urls.map(parseAddress);
    const [seed, slots] = await firstThatAnswers(addresses, world, limits);
    if (slots === undefined) {
      const subscriber = new Redis({
        ...optionsOf(seed),
        connectTimeout: limits.connectMs,
        maxRetriesPerRequest: null,
        // An automatic resubscription would hide a refusal.
        autoResubscribe: false,
      });
      subscriber.on("error", () => {});
      return new Topology(subscriber, undefined, [], seed, world, limits, meter);
    }
    const cluster = new Cluster(
      addresses.map(({ host, port }) => ({ host, port })),
      {
        // The watch of the slots says when.
        slotsRefreshInterval: 0,
        slotsRefreshTimeout: limits.connectMs,
        shardedSubscribers: true,
        // The connection resolves names itself. So an unresolvable name is one unreachable node, and certificates are checked
        // against the name.
        dnsLookup: (host, done) => done(null, host),
        clusterRetryStrategy: () => Math.ceil(limits.refreshMs / 4),
        redisOptions: {
          ...accessOf(seed),
          connectTimeout: limits.connectMs,
          commandTimeout: limits.commandMs,
          maxRetriesPerRequest: 1,
        },
      },
    );
    cluster.on("error", () => {});
    cluster.on("node error", () => {});
    return new Topology(cluster as unknown as Subscriber, cluster, slots, seed, world, limits, meter);
  }

  /** The known master of a bucket; throws if none is known. */
  nodeOf(bucket: number): RedisNode {
    if (this.cluster === undefined) return this.connect(nameOf(this.seed));
    const name = this.cluster.slots[this.slots[bucket]!]?.[0];
    if (name === undefined)
      throw new EngineError("unavailable", "no master of the Redis cluster is known for this key");
    return this.connect(name);
  }

  /** Runs the task after a reconnection of a single Redis. A cluster's client resubscribes by itself. */
  onReconnect(task: () => void): void {
    if (this.cluster === undefined) this.subscriber.on("ready", task);
  }

  connect(name: string): RedisNode {
    if (this.isClosed) throw new EngineError("unavailable", "the engine was closed");
    const found = this.nodes.get(name);
    if (found !== undefined && !found.over) return found;
    const node = this.connectApart(name);
    this.nodes.set(name, node);
    return node;
  }

  /** Opens a separate connection, for commands that block. */
  connectApart(name: string): RedisNode {
    if (this.isClosed) throw new EngineError("unavailable", "the engine was closed");
    const [host, port] = splitName(name);
    this.meter.connects++;
    const lost = () => this.meter.losses++;
    return new RedisNode(name, this.world, this.limits, { ...this.seed, host, port }, lost);
  }

  /** The known masters of all buckets. */
  masters(): string[] {
    const { cluster } = this;
    if (cluster === undefined) return [nameOf(this.seed)];
    return [...new Set(this.slots.flatMap((slot) => cluster.slots[slot]?.[0] ?? []))];
  }

  /** Asks for the slots again, because a reply says that they have moved. */
  refresh(): void {
    this.slotsWatch?.refresh();
  }

  /** Whether every bucket has a known master. */
  isComplete(): boolean {
    const { cluster } = this;
    return cluster === undefined || this.slots.every((slot) => cluster.slots[slot]?.[0] !== undefined);
  }

  close(): void {
    this.isClosed = true;
    this.slotsWatch?.close();
    for (const node of this.nodes.values()) node.close();
    if (this.cluster !== undefined) this.cluster.disconnect();
    else (this.subscriber as Redis).disconnect();
  }
}

export function parseAddress(text: string): Access {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new Error("a Redis address must look like redis://host:port");
  }
  if (url.protocol !== "redis:" && url.protocol !== "rediss:") {
    throw new Error(`a Redis address must start with redis:// or rediss://, not ${url.protocol}//`);
  }
  return {
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: url.port === "" ? 6379 : Number(url.port),
    username: url.username === "" ? undefined : decodeURIComponent(url.username),
    password: url.password === "" ? undefined : decodeURIComponent(url.password),
    tls: url.protocol === "rediss:",
  };
}

/** The credentials with which every node of a cluster is opened. */
function accessOf({ username, password, tls }: Access): RedisOptions {
  return {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(tls ? { tls: {} } : {}),
  };
}

function optionsOf(address: Access): RedisOptions {
  return { ...accessOf(address), host: address.host, port: address.port };
}

function nameOf({ host, port }: Access): string {
  return `${host}:${port}`;
}

/** Splits at the last colon, because an IPv6 address has colons of its own. */
function splitName(name: string): [string, number] {
  const colon = name.lastIndexOf(":");
  return [name.slice(0, colon), Number(name.slice(colon + 1))];
}

async function firstThatAnswers(addresses: readonly Access[], world: World, limits: RedisLimits) {
  const reasons: string[] = [];
  for (const address of addresses) {
    try {
      return [address, await examine(address, world, limits)] as const;
    } catch (fault) {
      if (fault instanceof Unfit) throw fault;
      reasons.push(`${nameOf(address)}: ${(fault as Error).message}`);
    }
  }
  throw new EngineError("unavailable", `no Redis answers (${reasons.join("; ")})`);
}

/** A Redis that answers and that Sluice cannot use. */
class Unfit extends Error {}

/** The slot of each bucket; undefined for a single Redis. */
async function examine(address: Access, world: World, limits: RedisLimits): Promise<number[] | undefined> {
  const node = new RedisNode(nameOf(address), world, limits, address, () => {});
  try {
    const info = String(await node.ask(["INFO"]));
    const version = /redis_version:(\d+)/.exec(info)?.[1];
    if (Number(version) < 7) throw new Unfit(`${nameOf(address)} runs Redis ${version}; Sluice needs 7 or later`);
    if (!/cluster_enabled:1/.test(info)) return undefined;
    // The hash tag alone, which is the bucket's number, decides the slot; the prefix does not matter.
    const keys = new Keys("");
    const asked = Array.from({ length: BUCKETS }, (_, bucket) =>
      node.ask(["CLUSTER", "KEYSLOT", keys.barrier(bucket)]),
    );
    return (await Promise.all(asked)).map(Number);
  } finally {
    node.close();
  }
}
