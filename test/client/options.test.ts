import { Sluice, type SluiceOptions } from "@sluice/client";
import { expect, test, vi } from "vitest";

const URL = "http://127.0.0.1:9";
const nowhere: typeof fetch = () => Promise.reject(new Error("no request must leave"));

function made(options: object): Sluice {
  return new Sluice({ url: URL, fetch: nowhere, ...options } as SluiceOptions);
}

test.each<[string, object, RegExp]>([
  ["no url", { url: undefined }, /^url must be .*like "https:\/\/streams\.example\.com"; got undefined$/],
  ["an empty url", { url: "" }, /^url must be .*; got ""$/],
  ["a url without its protocol", { url: "localhost:4437" }, /^url must be .*; got "localhost:4437"$/],
  ["a path", { url: "/streams" }, /^url must be/],
  ["a url with a query", { url: "http://h/?a=b" }, /^url must be/],
  ["another protocol", { url: "ftp://h" }, /^url must be/],
  ["a project that is no name", { project: "a/b" }, /^project must be .*; got "a\/b"$/],
  ["an empty token", { token: "" }, /^token must be/],
  ["a token that is none", { token: 5 }, /^token must be/],
  ["a fetch that is none", { fetch: "fetch" }, /^fetch must be a function/],
  ["no time for an answer", { timeoutMs: 0 }, /^timeoutMs must be a number of at least 1; got 0$/],
  ["a queue of NaN", { append: { queueSize: Number.NaN } }, /^append\.queueSize must be .*; got NaN$/],
  ["batches of 0", { append: { batchSize: 0 } }, /^append\.batchSize must be/],
  ["a number as text", { append: { batchMessages: "10" } }, /^append\.batchMessages must be .*; got "10"$/],
  ["a longest delay of 0", { retries: { maxMs: 0 } }, /^retries\.maxMs must be .*at least 1; got 0$/],
  ["retries without a delay", { retries: { minMs: 0 } }, /^retries\.minMs must be .*at least 1; got 0$/],
  [
    "a longest delay below the shortest",
    { retries: { minMs: 50, maxMs: 49 } },
    /^retries\.maxMs must be .*50; got 49$/,
  ],
  ["a negative patience", { retries: { giveUpMs: -1 } }, /^retries\.giveUpMs must be/],
  ["a hook that is none", { retries: { onRetry: true } }, /^retries\.onRetry must be a function/],
])("a client with %s is refused at once, and the error names the option", (_, options, says) => {
  expect(() => made(options)).toThrow(says);
  expect(() => made(options)).toThrow(TypeError);
});

test("a client without options is refused, and a longest delay below the default of the shortest is fine", () => {
  expect(() => Reflect.construct(Sluice, [])).toThrow(/^the options must be an object like/);
  made({ retries: { maxMs: 5 } });
});

test("a password in the url is refused and not shown", () => {
  expect(() => made({ url: "https://ada:sesame@h" })).toThrow(/^((?!sesame).)*$/);
});

test("an option that is undefined has its default, and ready does not wait for an empty queue", async () => {
  const nothing = { batchSize: undefined, batchMessages: undefined, queueSize: undefined };
  const sluice = made({
    project: undefined,
    token: undefined,
    timeoutMs: undefined,
    append: nothing,
    retries: { minMs: undefined, maxMs: undefined, giveUpMs: 0 },
  });
  const stream = sluice.stream("a");
  const failed = Promise.allSettled([stream.append(1), stream.append(2)]);
  await stream.ready();
  await failed;
});

test("appends share a request although batchSize is given as undefined", async () => {
  const bodies: unknown[] = [];
  const sluice = made({
    append: { batchSize: undefined },
    fetch: async (_: unknown, init: RequestInit) => {
      bodies.push(init.body);
      return new Response(null, { status: 204 });
    },
  });
  await Promise.all([1, 2, 3].map((n) => sluice.stream("a").append(n)));
  expect(bodies).toEqual(["[1,2,3]"]);
});

test.each<[string, (sluice: Sluice) => unknown, RegExp]>([
  ["a read", (sluice) => sluice.stream("a").read({ giveUpMs: -1 }), /^giveUpMs must be/],
  ["a read", (sluice) => sluice.stream("a").read({ waitMs: Number.NaN }), /^waitMs must be/],
  ["a read", (sluice) => sluice.stream("a").read({ silenceMs: 0 }), /^silenceMs must be/],
  ["pages", (sluice) => sluice.stream("a").pages({ waitMs: -5 }), /^waitMs must be/],
  ["a channel's read", (sluice) => sluice.channel("a").read({ silenceMs: Number.NaN }), /^silenceMs must be/],
  ["a publisher", (sluice) => sluice.channel("a").publisher({ intervalMs: Number.NaN }), /^intervalMs must be/],
  ["a publisher", (sluice) => sluice.channel("a").publisher({ giveUpMs: -1 }), /^giveUpMs must be/],
  ["a publisher", (sluice) => sluice.channel("a").publisher({ requestBytes: 100 }), /^requestBytes must be/],
  ["a publisher", (sluice) => sluice.channel("a").publisher({ sequence: 1.5 }), /^sequence must be a whole number/],
  ["a list", (sluice) => sluice.list({ pageSize: 0 }), /^pageSize must be a whole number/],
  ["a producer", (sluice) => sluice.stream("a", { producer: "" }), /^producer must be/],
  ["a producer", (sluice) => sluice.stream("a", { producer: { id: "p", epoch: 1.5 } }), /^producer\.epoch must be/],
  [
    "a producer",
    (sluice) => sluice.stream("a", { producer: { id: "p", epoch: 1, seq: -1 } }),
    /^producer\.seq must be/,
  ],
])("a wrong option of %s throws at the call", (_, call, says) => {
  expect(() => call(made({}))).toThrow(says);
});

test("a name that a header cannot carry is refused, not retried", async () => {
  const fetch = vi.fn(nowhere);
  const stream = made({ fetch }).stream("a");
  await expect(stream.append(1, { key: "ключ" })).rejects.toMatchObject({ code: "invalid-value", retryable: false });
  expect(fetch).not.toHaveBeenCalled();
});
