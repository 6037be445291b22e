/**
 * One Redis Cluster for the whole run, started before the first test file and ended after the last. Suites that only need a cluster
 * share it, each opening under a prefix of its own; suites that break one start their own.
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

/** A machine that is busy with other tests is slow, and no reason to call Redis dead. */
export const PATIENCE = { commandMs: 10_000, deadlineMs: 25_000 };

/** Where to find it, and a prefix that nobody else has. */
export function sharedRedis() {
  return { urls: [...inject("redisUrls")], prefix: `t${process.pid}.${openings++}`, ...PATIENCE };
}
