import fc from "fast-check";
import { expect, test } from "vitest";
import { SubscriptionIndex } from "../../packages/server/src/wakes/matching.ts";
import type { Config } from "../../packages/server/src/wakes/state.ts";
import { Subscription } from "../../packages/server/src/wakes/subscription.ts";

function subscriptionTo(pattern: string | undefined, more: Partial<Config> = {}, id = pattern ?? "none"): Subscription {
  const config = { type: "pull-wake", pattern, streams: [], wakeStream: "wakes", leaseMs: 1_000, ...more } as Config;
  return new Subscription("p", id, { config, incarnation: "i", base: "", createdAt: 0 });
}

const level = fc.constantFrom("a", "b", "*", "**", "%2A", "$shard");
const pattern = fc.array(level, { minLength: 1, maxLength: 5 }).map((levels) => levels.join("/"));
const name = fc.constantFrom("a", "b", "*", "$shard", "__ds", "wakes", "");
const path = fc.array(name, { minLength: 1, maxLength: 6 }).map((levels) => levels.join("/"));

test("the index finds the subscriptions that want a path, as each of them says by itself", () => {
  fc.assert(
    fc.property(fc.uniqueArray(pattern, { maxLength: 10 }), fc.array(fc.nat(9)), path, (patterns, removed, path) => {
      const index = new SubscriptionIndex();
      const subscriptions = patterns.map((pattern) => subscriptionTo(pattern));
      for (const subscription of subscriptions) index.add(subscription);
      for (const i of removed) if (subscriptions[i]) index.remove(subscriptions[i]);
      const wanted = subscriptions.filter((subscription, i) => !removed.includes(i) && subscription.wants(path));
      expect(new Set(index.match("p", path))).toEqual(new Set(wanted));
    }),
  );
});

test("a link by name is found besides the pattern, and goes by itself", () => {
  const index = new SubscriptionIndex();
  const subscription = subscriptionTo("a/b");
  index.add(subscription);
  index.link(subscription, "a/b");
  expect(index.match("p", "a/b")).toEqual([subscription]);
  index.unlink(subscription, "a/b");
  expect(index.match("p", "a/b")).toEqual([subscription]);
  index.remove(subscription);
  expect(index.match("p", "a/b")).toEqual([]);
});
