import { expect, it } from "vitest";
import { ReadyOrder } from "./ready-order.ts";

const always = () => true;

function ordered(...keys: (string | undefined)[]): ReadyOrder {
  const order = new ReadyOrder(true);
  for (const [i, key] of keys.entries()) order.add(i + 1, key);
  return order;
}

function takeAll(order: ReadyOrder, holder: string, isReady: (seq: number) => boolean = always): number[] {
  const taken: number[] = [];
  for (let seq = order.take(holder, false, isReady); seq !== undefined; seq = order.take(holder, false, isReady))
    taken.push(seq);
  return taken;
}

it("without ordering every message is taken once, lowest first, whatever its key", () => {
  const order = new ReadyOrder(false);
  for (const seq of [1, 2, 3]) order.add(seq, "k");
  expect(order.take("a", false, always)).toBe(1);
  expect(order.take("b", false, always)).toBe(2);
  order.ready(1);
  expect(takeAll(order, "b")).toEqual([1, 3]);
});

it("the messages of a key go to one holder, in order, while another holder gets other keys", () => {
  const order = ordered("x", "x", "y", "x", undefined);
  expect(order.take("a", false, always)).toBe(1);
  expect(takeAll(order, "b")).toEqual([3, 5]);
  expect(takeAll(order, "a")).toEqual([2, 4]);
});

it("a key whose leased messages are all done is free for another holder", () => {
  const order = ordered("x", "x");
  expect(order.take("a", false, always)).toBe(1);
  expect(order.take("b", false, always)).toBeUndefined();
  order.done(1);
  expect(order.take("b", false, always)).toBe(2);
  order.done(2);
  expect(order.size).toBe(0);
});

it("a message that comes back brings the later ones of its key with it, and only those", () => {
  const order = ordered("x", "x", "x", "y");
  expect(takeAll(order, "a")).toEqual([1, 2, 3, 4]);
  expect(order.back(2)).toEqual([3]);
  expect(takeAll(order, "b")).toEqual([]);
  expect(takeAll(order, "a")).toEqual([2, 3]);
  order.back(1);
  expect(takeAll(order, "b")).toEqual([1, 2, 3]);
});

it("a delayed message holds up the later ones of its key until it is ready", () => {
  const order = ordered("x", "x", "y");
  const isReady = (seq: number) => seq !== 1;
  expect(takeAll(order, "a", isReady)).toEqual([3]);
  order.ready(1);
  expect(takeAll(order, "a")).toEqual([1, 2]);
});

it("a sequential holder gets the next message of a key when the one before it is done", () => {
  const order = ordered("x", "x", "y");
  expect(order.take("a", true, always)).toBe(1);
  expect(order.take("a", true, always)).toBe(3);
  expect(order.take("a", true, always)).toBeUndefined();
  order.done(1);
  expect(order.take("a", true, always)).toBe(2);
});

it("an acknowledgement of a message that waits removes it from its key", () => {
  const order = ordered("x", "x");
  order.done(1);
  expect(takeAll(order, "a", (seq) => seq !== 1)).toEqual([2]);
});

it("acknowledgements of messages that wait leave the others in order, and forget the key with the last one", () => {
  const order = ordered("x", "x", "x", "x");
  expect(order.take("a", false, always)).toBe(1);
  order.done(3);
  expect(order.back(1)).toEqual([]);
  expect(takeAll(order, "a")).toEqual([1, 2, 4]);
  for (const seq of [1, 2, 4]) order.done(seq);
  expect(order.size).toBe(0);
});

it("a message that was done and is read again is taken once", () => {
  const order = ordered("x", "x");
  order.done(2);
  order.add(2, "x");
  expect(takeAll(order, "a")).toEqual([1, 2]);
});
