/** The stage of every failover test: a cluster of its own that fails over quickly, and nodes that are closed afterwards. */
import { createServer, type RunningServer, type ServerOptions } from "@sluice/server";
import { afterEach, beforeEach } from "vitest";
import { NERVOUS_MS, RedisCluster } from "../support/redis.ts";

export interface FailoverStage {
  readonly cluster: RedisCluster;
  /** Starts a node and returns its address. */
  serve(waitReplicas: number): Promise<string>;
}

/** Call it inside `describe`; the returned stage is valid while a test runs. */
export function failoverStage(options: ServerOptions): FailoverStage {
  let cluster: RedisCluster;
  const nodes: RunningServer[] = [];
  beforeEach(async () => {
    cluster = await RedisCluster.start({ nodeTimeoutMs: NERVOUS_MS });
  });
  afterEach(async () => {
    await Promise.all(nodes.splice(0).map((node) => node.close()));
    await cluster.close();
  });
  return {
    get cluster() {
      return cluster;
    },
    async serve(waitReplicas) {
      const redis = { urls: cluster.urls, waitReplicas, deadlineMs: 4_000 };
      const node = await createServer({ port: 0, log: false, redis, report: () => {}, ...options });
      nodes.push(node);
      return node.url;
    },
  };
}
