/**
 * The contract suite on the disk engine, which writes to its store at once and reads from there: every durable behavior is
 * checked again after a restart. The model's random operations show both ways to read.
 */
import { expect, test } from "vitest";
import { type Effect, entity } from "../../packages/server/src/engine/contract.ts";
import type { DiskEngine } from "../../packages/server/src/engine/disk/engine.ts";
import { eventually } from "../support/eventually.ts";
import { describeEngine } from "./engine-suite.ts";
import { diskOpener, EAGER } from "./open-disk.ts";
import { Fixture } from "./suite/fixture.ts";

describeEngine("disk that reads from its store", diskOpener("inline", EAGER));
if (process.env.SLUICE_DEEP === "1") {
  describeEngine("disk", diskOpener("inline"));
  describeEngine("disk with its thread", diskOpener("thread", EAGER));
}

test("what was read from the store is read anew once it has changed there, by a write, a drop, an append or a new life", async () => {
  const opened = await diskOpener("inline", EAGER)();
  const on = new Fixture(opened);
  const e = entity("p", "stream", "a");
  const keys = [
    { table: "t", key: "a" },
    { table: "t", key: "b" },
  ];
  const put = (key: string, text: string): Effect => ({ op: "put", table: "t", key, value: Buffer.from(text) });
  const seen = async () => {
    const { rows, head } = await on.load(e, keys);
    return [...rows.map((row) => row && Buffer.from(row).toString()), head.last.seq];
  };
  const steps: [() => Promise<unknown>, (string | number | undefined)[]][] = [
    [() => on.begin(e), [undefined, undefined, 0]],
    [() => on.commit(e, [put("a", "1")]), ["1", undefined, 0]],
    [() => on.commit(e, [put("a", "2"), put("b", "1")]), ["2", "1", 0]],
    [() => on.append(e, "m"), ["2", "1", 1]],
    [() => on.commit(e, [{ op: "drop", table: "t", key: "a" }]), [undefined, "1", 1]],
    [() => on.commit(e, [{ op: "destroy" }]), [undefined, undefined, 0]],
    [() => on.begin(e), [undefined, undefined, 0]],
    [() => on.commit(e, [put("b", "3")]), [undefined, "3", 0]],
  ];
  for (const [change, expected] of steps) {
    await change();
    expect(await seen()).toEqual(expected);
    await eventually(() => expect((on.engine as DiskEngine).lagBytes).toBe(0));
    for (let i = 0; i < 2; i++) expect(await seen()).toEqual(expected);
  }
  await opened.close();
});
