import { expect, test } from "vitest";
import { Topics } from "./topics.ts";

/** Streams that are listed page by page, and a clock that is moved by hand. */
function topicsOf(...paths: readonly string[]) {
  const stored = new Set(paths);
  const timers: (() => void)[] = [];
  let fails = 0;
  const topics = new Topics({
    world: {
      after: (_, task) => {
        timers.push(task);
        return () => void timers.splice(timers.indexOf(task), 1);
      },
    },
    async list(_, after, limit) {
      if (fails-- > 0) throw new Error("the store does not answer");
      const ids = [...stored].sort().filter((path) => path > after);
      return { ids: ids.slice(0, limit), next: ids.length > limit ? ids[limit - 1] : undefined };
    },
    pagePaths: 2,
    relistMs: 60_000,
    report: () => {},
  });
  const told: string[] = [];
  const follower = {
    found: (found: readonly string[]) => void told.push(...[...found].sort().map((path) => `+${path}`)),
    lost: (lost: readonly string[]) => void told.push(...[...lost].sort().map((path) => `-${path}`)),
    relisted: (matched: readonly string[]) => void told.push(`=${[...matched].sort()}`),
  };
  const relist = async () => {
    timers.shift()?.();
    await settled();
  };
  const failNext = () => {
    fails = 1;
  };
  return { topics, stored, timers, told, follower, relist, failNext };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test("a follower is told what matches, over all pages, and nothing else", async () => {
  const { topics, follower, told } = topicsOf("a/1", "a/2", "a/3", "b", "session:x", "a/4/$shard/0", "a/4");
  topics.follow("p", "a/#", follower);
  await settled();
  expect(told).toEqual(["+a/1", "+a/2", "+a/3", "+a/4"]);
  // The second follower need not wait for a listing.
  const second: string[] = [];
  topics.follow("p", "+", { ...follower, found: (paths) => void second.push(...paths) });
  expect(second).toEqual(["b"]);
});

test("hints are told at once, once, and only to followers that match", async () => {
  const { topics, follower, told } = topicsOf();
  topics.follow("p", "a/+", follower);
  await settled();
  for (const path of ["a/1", "a/1", "b/1"]) topics.created("p", path);
  topics.created("q", "a/2");
  topics.deleted("p", "a/1");
  topics.deleted("p", "a/1");
  expect(told).toEqual(["+a/1", "-a/1"]);
});

test("what hints missed is found by the next listing", async () => {
  const { topics, follower, told, stored, relist } = topicsOf("a/1", "a/2");
  topics.follow("p", "a/+", follower);
  await settled();
  told.length = 0;
  stored.add("a/3");
  stored.delete("a/1");
  await relist();
  expect(told).toEqual(["+a/3", "-a/1", "=a/2,a/3"]);
});

test("a listing that fails is repeated, and a hint that comes during a listing stands against it", async () => {
  const { topics, follower, told, relist, failNext, stored } = topicsOf("a/1");
  failNext();
  topics.follow("p", "a/+", follower);
  await settled();
  expect(told).toEqual([]);
  const listing = relist();
  stored.add("a/2");
  topics.created("p", "a/3");
  topics.deleted("p", "a/1");
  await listing;
  expect(told).not.toContain("-a/3");
  expect(told.filter((one) => one === "+a/3")).toHaveLength(1);
  expect(told).not.toContain("+a/1");
});

test("a project without followers is not listed", async () => {
  const { topics, follower, timers } = topicsOf("a/1");
  const unfollow = topics.follow("p", "a/+", follower);
  await settled();
  expect(timers).toHaveLength(1);
  unfollow();
  expect(timers).toHaveLength(0);
});
