/**
 * A real Redis Cluster for one test file: three masters with a replica each, on free ports, with a data directory of its
 * own. Tests can kill, stop, fail over and restart its nodes. The contract and failover suites use it.
 *
 * Invariants: whatever answers on a port is checked to be the process that was started here; every process is ended by its
 * pid.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { eventually } from "./eventually.ts";
import { TcpProxy } from "./tcp-proxy.ts";

const MASTERS = 3;
const SLOTS = 16_384;
/** How long a node may be silent before the others call it failed: long, unless a test waits for that. */
const CALM_MS = 30_000;
export const NERVOUS_MS = 2_000;
/** How long a node on a busy machine may take to answer, and after how long a stopped node counts as hung. */
const PATIENCE_MS = 15_000;
const HUNG_MS = 3_000;

/** Every process that was started here; none outlives this process. */
const living = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of living) child.kill("SIGKILL");
});

export class RedisServer {
  private child: ChildProcess | undefined;

  private proxy: TcpProxy | undefined;

  /** `proxyPort`: the announced port, for clients and replicas that connect over a proxy which a test can cut. */
  constructor(
    readonly port: number,
    private readonly busPort: number | undefined,
    private readonly dir: string,
    private readonly nodeTimeoutMs = CALM_MS,
    private readonly proxyPort?: number,
  ) {}

  get url(): string {
    return `redis://127.0.0.1:${this.proxyPort ?? this.port}`;
  }

  get pid(): number {
    return this.child!.pid!;
  }

  async start(): Promise<void> {
    mkdirSync(this.dir, { recursive: true });
    const plain = { port: this.port, bind: "127.0.0.1", dir: this.dir, save: "", appendonly: "yes", daemonize: "no" };
    // DEBUG gives a single node another history, because it has no failover that would.
    const debug = this.busPort === undefined ? { "enable-debug-command": "yes" } : {};
    const cluster = {
      "cluster-enabled": "yes",
      "cluster-port": this.busPort,
      "cluster-node-timeout": this.nodeTimeoutMs,
      "cluster-require-full-coverage": "no",
      "repl-diskless-sync-delay": 0,
    };
    const announced = this.proxyPort === undefined ? {} : { "cluster-announce-port": this.proxyPort };
    const settings = this.busPort === undefined ? { ...plain, ...debug } : { ...plain, ...cluster, ...announced };
    if (this.proxyPort !== undefined) this.proxy ??= await TcpProxy.open(this.proxyPort, this.port);
    const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
    const child = spawn("redis-server", args, { stdio: "ignore" });
    this.child = child;
    living.add(child);
    child.once("exit", () => living.delete(child));
    await eventually(async () => {
      if (child.exitCode !== null) throw new Error(`redis-server ended with ${child.exitCode}`);
      const info = await this.admin((redis) => redis.info("server"));
      if (Number(/process_id:(\d+)/.exec(info)?.[1]) !== child.pid) throw new Error("another process has our port");
    }, 20_000);
  }

  cutOff(): void {
    this.proxy!.cut();
  }

  /** Accepts connections and reads all bytes, and never answers. */
  mute(): void {
    this.proxy!.swallowAnswers();
  }

  heal(): void {
    this.proxy!.heal();
  }

  /** Opens a connection for one command, never over the proxy. */
  async admin<T>(ask: (redis: Redis) => Promise<T>, patienceMs = PATIENCE_MS): Promise<T> {
    const redis = new Redis({
      port: this.port,
      connectTimeout: patienceMs,
      commandTimeout: patienceMs,
      retryStrategy: () => null,
      maxRetriesPerRequest: 0,
      enableReadyCheck: false,
    });
    redis.on("error", () => {});
    try {
      return await ask(redis);
    } finally {
      redis.disconnect();
    }
  }

  /** Cuts a replica off from its master until `listen`. From now on only the master has its new writes. */
  async deafen(): Promise<void> {
    await this.admin(async (redis) => {
      await redis.config("SET", "masteruser", "no-such-user");
      await redis.config("SET", "masterauth", "wrong");
      await redis.call("CLIENT", "KILL", "TYPE", "master");
    });
    await eventually(async () => {
      const info = await this.admin((redis) => redis.info("replication"));
      if (!/master_link_status:down/.test(info)) throw new Error("the replica still hears its master");
    });
  }

  async listen(): Promise<void> {
    await this.admin(async (redis) => {
      await redis.config("SET", "masteruser", "");
      await redis.config("SET", "masterauth", "");
    });
  }

  /** Asks a replica for the port of its master. */
  async masterPort(): Promise<number> {
    return this.admin(async (redis) => Number(((await redis.call("ROLE")) as unknown[])[2]));
  }

  async role(): Promise<string> {
    return this.admin(async (redis) => String(((await redis.call("ROLE")) as unknown[])[0]), HUNG_MS);
  }

  signal(signal: "SIGKILL" | "SIGSTOP" | "SIGCONT"): void {
    this.child?.kill(signal);
  }

  async close(): Promise<void> {
    this.signal("SIGCONT");
    await this.kill();
    await this.proxy?.close();
  }

  async kill(): Promise<void> {
    const { child } = this;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    child.kill("SIGKILL");
    await ended;
  }
}

export class RedisCluster {
  private constructor(
    readonly nodes: readonly RedisServer[],
    private readonly dir: string,
  ) {}

  static async start({ proxied = false, nodeTimeoutMs = CALM_MS } = {}): Promise<RedisCluster> {
    const dir = mkdtempSync(join(tmpdir(), "sluice-redis-"));
    const ports = await freePorts(MASTERS * 6);
    const nodes = Array.from({ length: MASTERS * 2 }, (_, i) => {
      const proxyPort = proxied ? ports[MASTERS * 4 + i] : undefined;
      return new RedisServer(ports[2 * i]!, ports[2 * i + 1]!, join(dir, String(i)), nodeTimeoutMs, proxyPort);
    });
    const cluster = new RedisCluster(nodes, dir);
    try {
      await Promise.all(nodes.map((node) => node.start()));
      await cluster.join(ports);
      return cluster;
    } catch (fault) {
      await cluster.close();
      throw fault;
    }
  }

  get urls(): string[] {
    return this.nodes.map(({ url }) => url);
  }

  private async join(ports: readonly number[]): Promise<void> {
    const ids = await Promise.all(this.nodes.map((node) => node.admin((redis) => redis.call("CLUSTER", "MYID"))));
    await this.nodes[0]!.admin(async (redis) => {
      for (let i = 1; i < this.nodes.length; i++) {
        await redis.call("CLUSTER", "MEET", "127.0.0.1", ports[2 * i]!, ports[2 * i + 1]!);
      }
    });
    for (let i = 0; i < MASTERS; i++) {
      const [from, to] = [Math.floor((i * SLOTS) / MASTERS), Math.floor(((i + 1) * SLOTS) / MASTERS) - 1];
      await this.nodes[i]!.admin(async (redis) => {
        await redis.call("CLUSTER", "SET-CONFIG-EPOCH", i + 1).catch(() => {});
        await redis.call("CLUSTER", "ADDSLOTSRANGE", from, to);
      });
    }
    for (let i = MASTERS; i < this.nodes.length; i++) {
      const replicate = () =>
        this.nodes[i]!.admin((redis) => redis.call("CLUSTER", "REPLICATE", String(ids[i - MASTERS])));
      // Refused until this node has learned of its master.
      await eventually(async () => void (await replicate()), 20_000);
    }
    await this.settled();
  }

  /** Waits until every slot has a master, and every master a replica that is up to date. */
  async settled(replicas = MASTERS): Promise<void> {
    await eventually(async () => {
      let online = 0;
      // One node after the other, and only while each is whole: each question opens a connection, and most checks fail early.
      for (const node of this.nodes) {
        const info = await node.admin(
          async (redis) => `${await redis.call("CLUSTER", "INFO")} ${await redis.info("replication")}`,
        );
        const isWhole = /cluster_state:ok/.test(info) && /cluster_slots_ok:16384/.test(info);
        if (!isWhole) throw new Error(`the node on port ${node.port} does not see a whole cluster`);
        if (/slave0:.*state=online/.test(info)) online++;
      }
      if (online < replicas) throw new Error(`${online} masters have a replica`);
    }, 30_000);
  }

  masters(): Promise<RedisServer[]> {
    return this.inRole("master");
  }

  replicas(): Promise<RedisServer[]> {
    return this.inRole("slave");
  }

  private async inRole(role: string): Promise<RedisServer[]> {
    const roles = await Promise.all(this.nodes.map((node) => node.role().catch(() => "gone")));
    return this.nodes.filter((_, i) => roles[i] === role);
  }

  async close(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.close()));
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** Starts a Redis without a cluster. */
export async function startSingleRedis(): Promise<{ server: RedisServer; close(): Promise<void> }> {
  const dir = mkdtempSync(join(tmpdir(), "sluice-redis-"));
  const [port] = await freePorts(1);
  const server = new RedisServer(port!, undefined, dir);
  await server.start();
  return {
    server,
    close: async () => {
      await server.kill();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** Below the ports that the system gives to connections, so that none takes a port between this and the start of a server. */
const PORTS = { from: 12_000, below: 32_000 };

/** All ports are held open together, so that they differ. */
async function freePorts(count: number): Promise<number[]> {
  const held: Server[] = [];
  while (held.length < count) {
    const server = await listening(randomInt(PORTS.from, PORTS.below));
    if (server !== undefined) held.push(server);
  }
  const ports = held.map((server) => (server.address() as { port: number }).port);
  await Promise.all(held.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

/** Undefined if the port is taken. */
function listening(port: number): Promise<Server | undefined> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once("error", () => resolve(undefined));
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}
