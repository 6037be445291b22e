import { expect, test } from "vitest";
import { MAX_TOLD_BYTES, type ToldListener } from "../engine/contract.ts";
import { Carrier, type Envelope } from "./carrier.ts";
import type { Progress } from "./messages.ts";

function carrierOf() {
  const told: { node: string; bytes: Uint8Array }[] = [];
  let listener: ToldListener = () => {};
  const engine = {
    node: "here",
    tell: (node: string, bytes: Uint8Array) => void told.push({ node, bytes }),
    onTold: (given: ToldListener) => {
      listener = given;
      return () => {
        listener = () => {};
      };
    },
  };
  const heard: Envelope[] = [];
  const carrier = new Carrier(engine, { soon: (task) => task() });
  carrier.start({ toLeader: (envelope) => heard.push(envelope), toBorrower: (envelope) => heard.push(envelope) });
  return { carrier, told, heard, arrive: (bytes: Uint8Array) => listener(bytes, "there") };
}

const from = { id: "b", node: "here" };
const ping: Envelope = { groups: 1, group: "p/group/g", from, message: { type: "ping", sentMs: 7 } };
const entries = (count: number): Progress[] =>
  Array.from({ length: count }, (_, i) => ({
    stream: `${i}`.padEnd(1_024, "x"),
    epoch: i,
    position: { generation: 1, seq: i },
  }));

test("a message to this node stays here, and one to another is told and read there", () => {
  const { carrier, told, heard, arrive } = carrierOf();
  carrier.send("here", ping);
  expect([heard, told]).toEqual([[ping], []]);
  carrier.send("there", ping);
  expect(told.map(({ node }) => node)).toEqual(["there"]);
  arrive(told[0]!.bytes);
  expect(heard).toEqual([ping, ping]);
});

test.each(["nonsense", "null", "7", '{"hints":[]}', '{"groups":2}'])(
  "bytes of another kind are dropped: %s",
  (text) => {
    const { heard, arrive } = carrierOf();
    arrive(new TextEncoder().encode(text));
    expect(heard).toEqual([]);
  },
);

test.each(["update_progress", "disconnect"] as const)(
  "a long %s is cut into parts that fit, the last as it is",
  (type) => {
    const { carrier, told, heard, arrive } = carrierOf();
    const progress = entries(60);
    carrier.send("there", { ...ping, message: { type, progress } } as Envelope);
    for (const { bytes } of told) {
      expect(bytes.length).toBeLessThan(MAX_TOLD_BYTES);
      arrive(bytes);
    }
    const messages = heard.map(({ message }) => message as { type: string; progress: Progress[] });
    expect(messages.flatMap((message) => message.progress)).toEqual(progress);
    expect(messages.map((message) => message.type)).toEqual(["update_progress", "update_progress", type]);
  },
);
