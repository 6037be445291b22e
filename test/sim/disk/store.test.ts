/** The simulated store behaves like LMDB: the test runs the same operations on both and compares after each. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { openLmdb } from "../../../packages/server/src/engine/disk/lmdb-store.ts";
import type { Store } from "../../../packages/server/src/engine/disk/store.ts";
import { temporaryDir } from "../../support/disk.ts";
import { SimStore } from "./store.ts";

const key = fc.uint8Array({ minLength: 1, maxLength: 3, max: 3 }).map((bytes) => Buffer.from(bytes));
const change = fc.record({ key, value: fc.option(fc.uint8Array({ maxLength: 9_000 })) });
const operation = fc.oneof(
  fc.record({ op: fc.constant("transact" as const), changes: fc.array(change, { maxLength: 6 }), fail: fc.boolean() }),
  fc.record({
    op: fc.constantFrom("scan" as const, "keys" as const, "lastKey" as const),
    from: key,
    to: key,
    limit: fc.nat(4),
  }),
);
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never;

function run(store: Store, one: Operation): unknown {
  if (one.op === "lastKey") return store.lastKey(one.from, one.to)?.toString("hex");
  if (one.op !== "transact") {
    const seen: string[] = [];
    const visit = (key: Buffer, value?: Buffer): boolean =>
      seen.push(`${key.toString("hex")} ${value?.toString("hex")}`) <= one.limit;
    if (one.op === "scan") store.scan(one.from, one.to, visit);
    else store.keys(one.from, one.to, (key) => visit(key));
    return seen;
  }
  try {
    store.transact((tx) => {
      for (const { key, value } of one.changes) value === null ? tx.remove(key) : tx.put(key, Buffer.from(value));
      if (one.fail) throw new Error("undo");
    });
    return "committed";
  } catch {
    return one.changes.map(({ key }) => store.get(key)?.toString("hex"));
  }
}

describe("the simulated store", () => {
  it("gives the same results as LMDB for the same operations", async () => {
    const { dir, remove } = temporaryDir();
    const lmdb = openLmdb(`${dir}/store.mdb`);
    const simulated = new SimStore();
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 12 }), (operations) => {
        for (const one of operations) expect(run(simulated, one)).toEqual(run(lmdb, one));
      }),
    );
    await lmdb.close();
    remove();
  });
});
