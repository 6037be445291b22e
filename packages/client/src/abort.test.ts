import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { onAbort, orAborted } from "./abort.ts";

const listeners = (signal: AbortSignal) => getEventListeners(signal, "abort").length;

test("a signal has one listener however many waits share it, and none when all are over", () => {
  const { signal } = new AbortController();
  const stops = Array.from({ length: 50 }, () => onAbort(signal, () => {}));
  expect(listeners(signal)).toBe(1);
  for (const stop of stops) stop();
  expect(listeners(signal)).toBe(0);
});

test("an abort reaches every wait once, and those that stopped not at all", () => {
  const controller = new AbortController();
  const heard: number[] = [];
  const stops = [0, 1, 2].map((n) => onAbort(controller.signal, () => heard.push(n)));
  stops[1]!();
  controller.abort();
  for (const stop of stops) stop();
  expect(heard).toEqual([0, 2]);
});

test("a wait that begins after the abort, or is aborted, rejects with the reason", async () => {
  const controller = new AbortController();
  const waiting = orAborted(new Promise(() => {}), controller.signal);
  controller.abort("enough");
  await expect(waiting).rejects.toBe("enough");
  await expect(orAborted(new Promise(() => {}), controller.signal)).rejects.toBe("enough");
});
