/**
 * The public suite on memory, without the lane: Node's own parser takes every request. Disk has the lane. Redis is for the deep
 * run, because the contract suite shows that Redis does what memory does.
 */
import { sharedRedis } from "../support/shared-redis.ts";
import { describeConformance } from "./suite.ts";

describeConformance("memory, without the lane", () => ({ memory: true, http: { lane: false } }));
if (process.env.SLUICE_DEEP === "1") describeConformance("Redis Cluster", () => ({ redis: sharedRedis() }));
