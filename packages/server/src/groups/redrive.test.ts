import { ZERO } from "@sluice/protocol";
import { expect, it } from "vitest";
import { manualWorld } from "../../../../test/support/world.ts";
import { utf8 } from "../core/bytes.ts";
import { Keepers } from "../engine/keeper.ts";
import { openMemory } from "../engine/memory/memory.ts";
import { Streams } from "../streams/service.ts";
import { DEAD, redrive } from "./redrive.ts";
import { groupEntity } from "./state.ts";

const GROUP = groupEntity("p", { mode: "queue", group: "g", filter: "jobs/#" });
const TEXT = { config: { contentType: "text/plain" }, closed: false };

async function stage(letters: number) {
  const world = manualWorld(1);
  const engine = openMemory({ world });
  const keepers = new Keepers(engine, (task) => world.soon(task));
  const streams = new Streams(engine, keepers, world);
  for (const path of ["jobs/1", "jobs/2", "dead"]) await streams.create("p", path, TEXT);
  for (let i = 0; i < letters; i++) {
    const attributes = { [DEAD.group]: GROUP.id, [DEAD.stream]: `jobs/${1 + (i % 2)}`, mine: `${i}` };
    const append = { payloads: [utf8(`${i}`)], contentType: "text/plain", close: false, attributes };
    await streams.append("p", "dead", append);
  }
  const messages = async (path: string) => {
    const page = await streams.read("p", path, ZERO, 1 << 20);
    return page.kind === "page" ? page.messages : [];
  };
  return { keepers, streams, readBytes: 1, newName: () => "n", messages };
}

it("a redrive that dies before it has stored how far it came puts no letter back twice", async () => {
  const { messages, ...parts } = await stage(6);
  let commits = 0;
  const submit = ((...args: Parameters<Keepers["submit"]>) => {
    // The first commit names the producer; the fourth would store the third page.
    return ++commits === 4 ? Promise.reject(new Error("killed")) : parts.keepers.submit(...args);
  }) as Keepers["submit"];
  const dying = { ...parts, keepers: { submit } };
  await expect(redrive(dying, GROUP, "dead")).rejects.toThrow("killed");
  expect(await redrive(parts, GROUP, "dead")).toEqual({ redriven: 3, stayed: 0, more: false });
  const back = [...(await messages("jobs/1")), ...(await messages("jobs/2"))];
  expect(back.map(({ attributes }) => attributes)).toEqual(["0", "2", "4", "1", "3", "5"].map((mine) => ({ mine })));
});

it("two redrives at once put each letter back once", async () => {
  const { messages, ...parts } = await stage(20);
  const [a, b] = await Promise.all([redrive(parts, GROUP, "dead"), redrive(parts, GROUP, "dead")]);
  expect(a.redriven + b.redriven).toBe(20);
  expect((await messages("jobs/1")).length + (await messages("jobs/2")).length).toBe(20);
});

it("letters of a dead-letter stream that was created anew go back too", async () => {
  const { messages, ...parts } = await stage(2);
  await redrive(parts, GROUP, "dead");
  await parts.streams.delete("p", "dead");
  await parts.streams.create("p", "dead", TEXT);
  const attributes = { [DEAD.group]: GROUP.id, [DEAD.stream]: "jobs/1" };
  const append = { payloads: [utf8("new")], contentType: "text/plain", close: false, attributes };
  await parts.streams.append("p", "dead", append);
  expect(await redrive(parts, GROUP, "dead")).toMatchObject({ redriven: 1 });
  expect(await messages("jobs/1")).toHaveLength(2);
});

it("letters go back from every shard of a sharded dead-letter stream, once", async () => {
  const { messages, ...parts } = await stage(0);
  await parts.streams.create("p", "sharded", { config: { contentType: "text/plain", shards: 2 }, closed: false });
  for (const [i, messageKey] of ["a", "b", "c", "d", "e", "f"].entries()) {
    const attributes = { [DEAD.group]: GROUP.id, [DEAD.stream]: "jobs/1" };
    const append = { payloads: [utf8(`${i}`)], contentType: "text/plain", close: false, attributes, messageKey };
    expect((await parts.streams.append("p", "sharded", append)).kind).toBe("appended");
  }
  let names = 0;
  const named = { ...parts, newName: () => `n${names++}` };
  expect(await redrive(named, GROUP, "sharded")).toEqual({ redriven: 6, stayed: 0, more: false });
  expect(await redrive(named, GROUP, "sharded")).toEqual({ redriven: 0, stayed: 0, more: false });
  const back = (await messages("jobs/1")).map(({ payload }) => new TextDecoder().decode(payload));
  expect(back.sort()).toEqual(["0", "1", "2", "3", "4", "5"]);
});
