import { EventEmitter } from "node:events";
import { expect, it } from "vitest";
import { ConnectionRoom } from "./connection-room.ts";

it("connections of all doors share the room, and a door with a part of it never has more than its part", () => {
  const room = new ConnectionRoom(3);
  const part = room.part(2);
  const open = Array.from({ length: 6 }, () => new EventEmitter());
  expect(part.enter(open[0]!)).toBe(true);
  expect(part.enter(open[1]!)).toBe(true);
  expect(part.enter(open[2]!)).toBe(false);
  expect(room.enter(open[3]!)).toBe(true);
  expect(room.enter(open[4]!)).toBe(false);
  open[0]!.emit("close");
  expect(room.enter(open[4]!)).toBe(true);
  expect(part.enter(open[5]!)).toBe(false);
});
