import type { Position } from "@sluice/protocol";
import { expect, it } from "vitest";
import { manualWorld } from "../../../../test/support/world.ts";
import { PacedHold } from "./paced-hold.ts";

function paced() {
  const world = manualWorld(1);
  const stored: number[] = [];
  const faults: unknown[] = [];
  const trouble = { isOn: false };
  const follower = { at: 0 };
  const hold = new PacedHold({
    world,
    store: async ({ seq }: Position) => {
      if (trouble.isOn) throw new Error("no");
      stored.push(seq);
    },
    again: () => move(follower.at, 0),
    report: (fault) => faults.push(fault),
  });
  const move = (seq: number, bytes = 1) => {
    follower.at = seq;
    return hold.move({ generation: 1, seq }, "n", bytes);
  };
  const pass = async (ms: number) => {
    world.advance(ms);
    for (let i = 0; i < 5; i++) await Promise.resolve();
  };
  return { follower, hold, move, pass, stored, faults, trouble };
}

it("a hold is stored at first, then every five seconds, with the last position", async () => {
  const { move, pass, stored } = paced();
  for (let seq = 1; seq <= 10; seq++) await move(seq);
  expect(stored).toEqual([1]);
  await pass(4_999);
  expect(stored).toEqual([1]);
  await pass(1);
  expect(stored).toEqual([1, 10]);
  await pass(60_000);
  expect(stored).toEqual([1, 10]);
});

it("a hold rises after eight mebibytes, however soon", async () => {
  const { move, stored } = paced();
  await move(1);
  for (let seq = 2; seq <= 9; seq++) await move(seq, 2 * 1024 * 1024);
  expect(stored).toEqual([1, 5, 9]);
});

it("a hold that must fall falls at once", async () => {
  const { move, stored } = paced();
  await move(10);
  await move(11);
  await move(4);
  expect(stored).toEqual([10, 4]);
});

it("a move that had to wait goes to where the follower stands when it is due", async () => {
  const { follower, move, pass, stored } = paced();
  await move(5);
  await move(9);
  follower.at = 2;
  await pass(5_000);
  expect(stored).toEqual([5, 2]);
});

it("a hold that is stored already is not stored again", async () => {
  const { move, pass, stored } = paced();
  await move(5);
  await pass(6_000);
  await move(5);
  await pass(6_000);
  expect(stored).toEqual([5]);
});

it("a hold that was forgotten is stored with the next move, and no earlier one follows", async () => {
  const { hold, move, pass, stored } = paced();
  await move(1);
  await move(2);
  hold.forget();
  await pass(10_000);
  expect(stored).toEqual([1]);
  await move(3);
  expect(stored).toEqual([1, 3]);
});

it("a hold that could not be stored is stored with the next move; a fault of the timer is reported", async () => {
  const { move, pass, stored, faults, trouble } = paced();
  await move(1);
  trouble.isOn = true;
  await move(2);
  await pass(5_000);
  expect(faults).toHaveLength(1);
  await expect(move(3)).rejects.toThrow("no");
  trouble.isOn = false;
  await move(4);
  expect(stored).toEqual([1, 4]);
});
