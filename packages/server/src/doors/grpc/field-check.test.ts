import protobuf from "protobufjs";
import { expect, it } from "vitest";
import { checkFields } from "./field-check.ts";

const { root } = protobuf.parse(`
  syntax = "proto3";
  message Tree {
    string name = 1;
    repeated Tree children = 2;
    map<string, string> labels = 3;
    bytes data = 4;
    int64 count = 5;
  }
`);
const TREE = root.resolveAll().lookupType("Tree");
const encoded = (tree: object) => Buffer.from(TREE.encode(tree).finish());
const check = (bytes: Buffer, maxFields = 10) => checkFields(bytes, TREE, maxFields);
const NOT_UTF8 = "aÿ".repeat(2);

/** With a byte that no UTF-8 has in place of each ÿ. */
const spoiled = (tree: object) => {
  const bytes = encoded(tree);
  for (let at = bytes.indexOf("ÿ"); at >= 0; at = bytes.indexOf("ÿ")) bytes.set([0xff, 0xff], at);
  return bytes;
};

it("a message with as many fields as are allowed passes, at all levels together, and one more is refused", () => {
  const tree = { name: "a", children: [{ name: "b", count: 1 }, {}], labels: { k: "v" }, data: Buffer.from([0xff]) };
  expect(() => check(encoded(tree), 9)).not.toThrow();
  expect(() => check(encoded(tree), 8)).toThrow("more than 8 fields");
});

it("a text that is not UTF-8 is refused at any level and in a map, and bytes may be anything", () => {
  for (const tree of [{ name: NOT_UTF8 }, { children: [{ name: NOT_UTF8 }] }, { labels: { [NOT_UTF8]: "v" } }]) {
    expect(() => check(spoiled(tree))).toThrow("not UTF-8");
    expect(() => check(encoded(tree))).not.toThrow();
  }
});

it("a message that is nested too deep, has a group or ends early is refused", () => {
  let deep: object = {};
  for (let i = 0; i < 50; i++) deep = { children: [deep] };
  expect(() => check(encoded(deep), 1_000)).toThrow("nested more than 50 deep");
  expect(() => check(Buffer.from([0x0b, 0x0c]))).toThrow("not a valid message");
  expect(() => check(Buffer.from([0x0a, 0x05, 0x61]))).toThrow("not a valid message");
});
