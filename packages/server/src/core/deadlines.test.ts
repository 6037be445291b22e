import { expect, test } from "vitest";
import { manualWorld } from "../../../../test/support/world.ts";
import { Deadlined, Deadlines } from "./deadlines.ts";

class Item extends Deadlined {
  constructor(
    readonly name: string,
    private readonly told: string[],
    private readonly then = () => {},
  ) {
    super();
  }

  expire(): void {
    this.told.push(this.name);
    this.then();
  }
}

function setUp() {
  const world = manualWorld(1);
  const told: string[] = [];
  const deadlines = new Deadlines(world, 100);
  const add = (name: string, then?: () => void) => {
    const item = new Item(name, told, then);
    deadlines.add(item);
    return item;
  };
  return { world, told, deadlines, add };
}

test("each item expires at its own time, in the order of arrival", () => {
  const { world, told, add } = setUp();
  add("a");
  world.advance(60);
  add("b");
  world.advance(39);
  expect(told).toEqual([]);
  world.advance(1);
  expect(told).toEqual(["a"]);
  world.advance(59);
  expect(told).toEqual(["a"]);
  world.advance(1);
  expect(told).toEqual(["a", "b"]);
});

test("a removed item does not expire, wherever it stood, and removing it twice does no harm", () => {
  const { world, told, deadlines, add } = setUp();
  const items = ["a", "b", "c", "d", "e"].map((name) => add(name));
  for (const i of [0, 2, 4]) {
    deadlines.remove(items[i]!);
    deadlines.remove(items[i]!);
  }
  add("f");
  world.advance(100);
  expect(told).toEqual(["b", "d", "f"]);
});

test("an item that is added again has the whole time again", () => {
  const { world, told, deadlines, add } = setUp();
  const item = add("a");
  world.advance(90);
  deadlines.remove(item);
  world.advance(90);
  deadlines.add(item);
  world.advance(99);
  expect(told).toEqual([]);
  world.advance(1);
  expect(told).toEqual(["a"]);
});

test("an item added by another's expiry expires in its turn", () => {
  const { world, told, add } = setUp();
  add("a", () => add("b"));
  world.advance(100);
  world.advance(100);
  expect(told).toEqual(["a", "b"]);
});

test("an item that is added again on expiry delays no earlier item", () => {
  const { world, told, deadlines, add } = setUp();
  const again = add("a", () => deadlines.add(again));
  world.advance(40);
  add("b");
  world.advance(60);
  expect(told).toEqual(["a"]);
  world.advance(40);
  expect(told).toEqual(["a", "b"]);
  world.advance(60);
  expect(told).toEqual(["a", "b", "a"]);
});

test("items that are added again expire once per span, though the clock advances meanwhile", () => {
  const { world, told, deadlines, add } = setUp();
  const slow = Object.assign(Object.create(world), { passedMs: 0, now: () => world.now() + slow.passedMs });
  Object.assign(deadlines, { world: slow });
  const again = ["a", "b", "c"].map((name, i) => {
    return add(name, () => {
      slow.passedMs++;
      if (told.length > 20) throw new Error("told without end");
      deadlines.add(again[i]!);
    });
  });
  world.advance(100);
  expect(told).toEqual(["a", "b", "c"]);
});

test("a clock that is set back makes no item wait for it to catch up", () => {
  const { world, told, add } = setUp();
  add("a");
  world.setClock(-3_600_000);
  world.advance(99);
  expect(told).toEqual([]);
  world.advance(1);
  expect(told).toEqual(["a"]);
});

test("a clock that is set forward ends no item early", () => {
  const { world, told, add } = setUp();
  add("a");
  world.advance(50);
  add("b");
  world.setClock(3_600_000);
  world.advance(50);
  expect(told).toEqual(["a"]);
});
