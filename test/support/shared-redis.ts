/**
 * One Redis Cluster for the whole run, started before the first test file and ended after the last. vitest calls `setup`;
 * suites that only need a cluster share it.
 *
 * Invariants: each suite opens under a prefix of its own. A suite that breaks a cluster starts its own.
 */
import { inject } from "vitest";
import type { TestProject } from "vitest/node";
import { RedisCluster } from "./redis.ts";

declare module "vitest" {
  interface ProvidedContext {
    redisUrls: readonly string[];
  }
}

/** Called by vitest itself. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const cluster = await RedisCluster.start();
  project.provide("redisUrls", cluster.urls);
  return () => cluster.close();
}

let openings = 0;

/** A machine that is busy with other tests is slow, which must not make Redis count as dead. */
export const PATIENCE = { commandMs: 10_000, deadlineMs: 25_000 };

/** The addresses of the cluster, and an unused prefix. */
export function sharedRedis() {
  return { urls: [...inject("redisUrls")], prefix: `t${process.pid}.${openings++}`, ...PATIENCE };
}
