import { expect, it } from "vitest";
import { utf8 } from "../core/bytes.ts";
import { registryTable } from "./state.ts";

it("a registry that an earlier version stored is read as today's", () => {
  const at = { generation: 1, seq: 2 };
  const old = { name: "n", cursor: at, seq: 3, version: at, count: 4, laggards: 1, lenders: 2 };
  const { lenders, ...rest } = old;
  const registry = registryTable.decode(utf8(JSON.stringify(old)));
  expect(registry).toEqual({ ...rest, departedBorrowers: lenders });
  expect(registryTable.decode(registryTable.encode(registry))).toEqual(registry);
});
