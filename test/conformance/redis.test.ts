import { sharedRedis } from "../support/shared-redis.ts";
import { describeConformance } from "./suite.ts";

describeConformance("Redis Cluster", () => ({ redis: sharedRedis() }));
