import { describe, expect, test } from "vitest";
import { Room } from "../../examples/chat/page/room.ts";
import type { Said } from "../../examples/chat/rooms.ts";

const said = (id: string, by = "bob"): Said => ({ id, person: { id: by, name: by, tone: 0 }, text: id, at: 0 });
const idsOf = (room: Room) => room.messages.map(({ said: { id }, isSent }) => `${id}${isSent ? "" : "?"}`);

describe("a room of the chat", () => {
  test("takes everything for history on a first visit, and what comes after the last seen message for missed", () => {
    const first = new Room("general", "ada", undefined);
    first.arrived(said("a"), "1");
    first.caughtUp("1");
    first.arrived(said("b"), "2");
    expect([first.unread, first.seen]).toEqual([1, "1"]);
    const again = new Room("general", "ada", "1");
    for (const [i, id] of ["a", "b", "c"].entries()) again.arrived(said(id), String(i + 1));
    expect([again.unread, again.missed]).toEqual([2, undefined]);
    again.look(true);
    expect([again.unread, again.missed, again.seen]).toEqual([0, { before: "b", count: 2 }, "3"]);
  });

  test("counts anew with every absence, and does not count the person's own messages", () => {
    const room = new Room("general", "ada", "0");
    room.arrived(said("a"), "1");
    room.look(true);
    room.arrived(said("b"), "2");
    expect([room.missed?.count, room.seen]).toEqual([1, "2"]);
    room.look(false);
    room.arrived(said("own", "ada"), "3");
    room.arrived(said("c"), "4");
    room.look(true);
    expect(room.missed).toEqual({ before: "c", count: 1 });
    room.send(said("answer", "ada"));
    expect(room.missed).toBe(undefined);
  });

  test("shows a message behind the others until it is stored, and once although it was sent twice", () => {
    const room = new Room("general", "ada", "0");
    room.send(said("own", "ada"));
    room.arrived(said("a"), "1");
    expect([idsOf(room), room.sendingCount]).toEqual([["a", "own?"], 1]);
    room.arrived(said("own", "ada"), "2");
    room.arrived(said("own", "ada"), "3");
    room.send(said("own", "ada"));
    expect([idsOf(room), room.sendingCount]).toEqual([["a", "own"], 0]);
  });
});
