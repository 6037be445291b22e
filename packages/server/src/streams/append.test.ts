/**
 * The rule for appending and closing, by table: what a stream knows, what is asked, what comes of it. Every refusal leaves the
 * stream as it is, and every acceptance stores the message together with the producer and the Stream-Seq that cover it.
 */
import { describe, expect, it } from "vitest";
import { RuleView } from "../../../../test/support/rule-view.ts";
import { utf8 } from "../core/bytes.ts";
import { NO_HEAD } from "../engine/contract.ts";
import { type Append, type AppendOutcome, appendRule, type ShardedAppend } from "./append.ts";
import { type Meta, metaTable, type Producer, producerTable, seqTable } from "./state.ts";

const NOW = 1_000_000;
const TAIL = { generation: 3, seq: 7 };
const TEXT = "text/plain";
const PLAIN: Meta = { config: { contentType: TEXT }, createdAt: 0, touchedAt: 0, closed: false };
const MINE: Producer = { epoch: 2, seq: 5 };

interface Stream {
  readonly meta?: Partial<Meta>;
  /** What the stream knows of the producer "p". */
  readonly known?: Producer;
  readonly lastSeq?: string;
  /** When the last message was appended. */
  readonly at?: number;
}

function viewOf({ meta, known, lastSeq, at = 0 }: Stream = {}): RuleView {
  const view = new RuleView({ ...NO_HEAD, generation: 3, last: TAIL, start: { generation: 3, seq: 0 }, at });
  view.with(metaTable, "", { ...PLAIN, ...meta });
  return view.with(producerTable, "p", known).with(seqTable, "", lastSeq);
}

const append = (more: Partial<Append> = {}): Append => ({
  payloads: [utf8("x")],
  contentType: TEXT,
  close: false,
  ...more,
});
const close = (more: Partial<Append> = {}): Append => ({ payloads: [], close: true, ...more });
const by = (epoch: number, seq: number, id = "p") => ({ producer: { id, epoch, seq } });
const html = { contentType: "text/html" };
const closing = { close: true };

const decide = (view: RuleView, input: Append) => appendRule(view, NOW, input, Number.POSITIVE_INFINITY);

type Row = readonly [name: string, stream: Stream, input: Append, outcome: Partial<AppendOutcome | ShardedAppend>];

const open: Stream = {};
const known: Stream = { known: MINE };
const sequenced: Stream = { lastSeq: "b" };
const both: Stream = { ...known, ...sequenced };
const followed: Stream = { ...known, meta: { follows: { fanout: "n" } } };
const over: Stream = { meta: { config: { contentType: TEXT, expiresAt: NOW } } };
const deleted: Stream = { meta: { deleted: true, forks: { count: 1, needAfter: TAIL } } };
const shard: Stream = { meta: { shardOf: "t" } };
const topic = (more: Partial<Meta> = {}): Stream => ({
  meta: { config: { contentType: TEXT, shards: 4 }, topic: { id: "t" }, ...more },
});

const ABSENT = { kind: "absent" } as const;
const WRONG_TYPE = { kind: "wrong-type", contentType: TEXT } as const;
const FENCED = { kind: "producer-fenced", epoch: 2 } as const;
const DUPLICATE = { kind: "duplicate", next: TAIL, closed: false, producer: MINE } as const;
const GAP = { kind: "producer-gap", expected: 6, received: 7 } as const;
const REGRESSION = { kind: "seq-regression", last: "b" } as const;
const SHARDED = { kind: "sharded", shards: 4, topicId: "t" } as const;

const REFUSALS: readonly Row[] = [
  ["a stream whose expiry has passed is absent", over, append(), ABSENT],
  ["a deleted stream that forks still read is gone", deleted, append(), { kind: "gone" }],
  ["a topic takes no message itself but names its shards", topic(), append(), { ...SHARDED, isWhole: true }],
  ["a closed topic leaves the refusal to its shards", topic({ closed: true }), append(), { ...SHARDED, isWhole: true }],
  [
    "a topic in the middle of a step is not whole",
    topic({ topic: { id: "t", step: "making" } }),
    append(),
    { ...SHARDED, isWhole: false },
  ],
  ["a shard of another topic of the same name is absent", shard, append({ topicId: "later" }), ABSENT],
  ["a plain stream is a shard of no topic", open, append({ topicId: "t" }), ABSENT],

  ["another content type is refused with the stream's own", open, append(html), WRONG_TYPE],
  ["a message without a content type is refused", open, append({ contentType: undefined }), WRONG_TYPE],

  ["a producer of an earlier epoch is fenced", known, append(by(1, 6)), FENCED],
  ["a producer of an earlier epoch is fenced for a repetition too", known, append(by(1, 5)), FENCED],
  ["an earlier sequence is a duplicate and echoes the highest one", known, append(by(2, 3)), DUPLICATE],
  ["the last accepted sequence is a duplicate", known, append(by(2, 5)), DUPLICATE],
  ["a duplicate names the stream's followers", followed, append(by(2, 5)), { ...DUPLICATE, follows: { fanout: "n" } }],
  ["a skipped sequence is a gap", known, append(by(2, 7)), GAP],
  ["an unknown producer starts at 0", open, append(by(0, 1)), { kind: "producer-gap", expected: 0, received: 1 }],
  ["a later epoch starts at 0", known, append(by(3, 6)), { kind: "producer-epoch-start" }],
  ["closing without data is checked for its producer's sequence", known, close(by(2, 7)), GAP],

  ["a Stream-Seq equal to the last one is a regression", sequenced, append({ seq: "b" }), REGRESSION],
  ["a smaller Stream-Seq is a regression", sequenced, append({ seq: "a" }), REGRESSION],
  ["closing without data is checked for Stream-Seq", sequenced, close({ seq: "b" }), REGRESSION],
  ["Stream-Seq is compared as text", { lastSeq: "9" }, append({ seq: "10" }), { kind: "seq-regression", last: "9" }],
];

const closed: Stream = { meta: { closed: true } };
const closedKnown: Stream = { ...known, ...closed };
const closedByMine: Stream = { ...known, meta: { closed: true, closedBy: { id: "p", ...MINE } } };
const closedByOther: Stream = { ...known, meta: { closed: true, closedBy: { id: "q", ...MINE } } };
const closedFollowed: Stream = { ...known, meta: { closed: true, follows: { fanout: "n" } } };

const CLOSED = { kind: "closed", next: TAIL } as const;
const REPEATED = { ...DUPLICATE, closed: true } as const;

const CLOSED_STREAMS: readonly Row[] = [
  ["a closed stream takes no message and says where it ends", closed, append(), CLOSED],
  ["a closed stream takes no closing message", closed, append(closing), CLOSED],
  ["closing again without data is answered as before", closed, close(), { kind: "appended", next: TAIL, closed: true }],
  ["a message accepted before the closing may be repeated", closedKnown, append(by(2, 5)), REPEATED],
  ["such a repetition names the stream's followers", closedFollowed, append(by(2, 5)), { follows: { fanout: "n" } }],
  ["the request that closed the stream may be repeated", closedByMine, append({ ...by(2, 5), ...closing }), REPEATED],
  ["an earlier request of the same producer cannot close", closedByMine, append({ ...by(2, 4), ...closing }), CLOSED],
  ["a producer cannot repeat a closing without producer", closedKnown, close(by(2, 5)), CLOSED],
  ["another producer's closing of the same numbers is no repetition", closedByOther, close(by(2, 5)), CLOSED],
  ["a producer's next message is refused as closed", closedKnown, append(by(2, 6)), CLOSED],
  ["a producer's later epoch is refused as closed", closedKnown, append(by(3, 0)), CLOSED],
  ["an unknown producer's closing is refused as closed", closed, close(by(0, 0)), CLOSED],
];

const ORDER: readonly Row[] = [
  ["a fenced producer comes before a closed stream", closedKnown, append(by(1, 6)), FENCED],
  ["a fenced producer comes before the content type", known, append({ ...by(1, 6), ...html }), FENCED],
  ["a closed stream comes before the content type", closed, append(html), CLOSED],
  ["a closed stream comes before a producer's gap", closedKnown, append(by(2, 9)), CLOSED],
  ["a closed stream comes before Stream-Seq", { ...closed, ...sequenced }, append({ seq: "a" }), CLOSED],
  ["the content type comes before a producer's gap", known, append({ ...by(2, 9), ...html }), WRONG_TYPE],
  ["the content type comes before a duplicate", known, append({ ...by(2, 5), ...html }), WRONG_TYPE],
  ["the content type comes before Stream-Seq", sequenced, append({ seq: "a", ...html }), WRONG_TYPE],
  ["a producer's gap comes before Stream-Seq", both, append({ ...by(2, 7), seq: "a" }), GAP],
  ["a duplicate comes before Stream-Seq, which repeats as well", both, append({ ...by(2, 5), seq: "b" }), DUPLICATE],
];

describe("an append that stores nothing", () => {
  it("finds a stream absent that was never created", () => {
    expect(decide(new RuleView(), append())).toEqual({ outcome: ABSENT });
  });

  it.each([...REFUSALS, ...CLOSED_STREAMS])("%s", (_, stream, input, outcome) => {
    const decision = decide(viewOf(stream), input);
    expect(decision.outcome).toMatchObject(outcome);
    expect(decision.changes ?? []).toEqual([]);
  });

  it.each(ORDER)("with two reasons: %s", (_, stream, input, outcome) => {
    expect(decide(viewOf(stream), input)).toEqual({ outcome: expect.objectContaining(outcome) });
  });
});

describe("an append that is accepted", () => {
  const pair = [utf8("a"), utf8("b")];
  const next = (seq: number) => ({ next: { generation: 3, seq } });
  const follows = { fanout: "n", wakes: "m" };

  const ACCEPTED: readonly Row[] = [
    ["a message goes after the last one, in the head's generation", open, append(), next(8)],
    ["a batch takes one number per message", open, append({ payloads: pair }), next(9)],
    ["parameters and case of a content type do not count", open, append({ contentType: "Text/Plain; v=1" }), {}],
    ["closing needs no data and no content type", open, close(), { ...next(7), closed: true, isCloseOnly: true }],
    ["a message may close the stream", open, append(closing), { ...next(8), closed: true, isCloseOnly: false }],
    ["a shard takes what is meant for its topic", shard, append({ topicId: "t" }), next(8)],
    ["a shard takes what names no topic", shard, append(), next(8)],
    ["an unknown producer starts in any epoch", open, append(by(7, 0)), { producer: { epoch: 7, seq: 0 } }],
    ["a producer's next sequence is taken", known, append(by(2, 6)), { producer: { epoch: 2, seq: 6 } }],
    ["a later epoch may skip epochs", known, append(by(9, 0)), { producer: { epoch: 9, seq: 0 } }],
    ["producers are told apart by id", known, append(by(0, 0, "q")), { producer: { epoch: 0, seq: 0 } }],
    ["a greater Stream-Seq is taken", sequenced, append({ seq: "ba" }), {}],
    ["the first Stream-Seq may be any text", open, append({ seq: "" }), {}],
    ["a message without Stream-Seq is taken after one with it", sequenced, append(), {}],
    ["the features that follow the stream are named", { meta: { follows } }, append(), { follows }],
  ];

  it.each(ACCEPTED)("%s", (_, stream, input, outcome) => {
    const view = viewOf(stream);
    expect(view.run(decide(view, input))).toMatchObject({ kind: "appended", ...outcome });
    expect(view.log.length).toBe(input.payloads.length);
    expect(view.head.last).toEqual({ generation: 3, seq: 7 + input.payloads.length });
  });

  it("stores the message, its producer's sequence and its Stream-Seq in one decision", () => {
    const view = viewOf({ known: MINE, lastSeq: "a" });
    view.run(decide(view, append({ ...by(2, 6), seq: "b" })));
    expect(view.get(producerTable, "p")).toEqual({ epoch: 2, seq: 6 });
    expect(view.get(seqTable, "")).toBe("b");
    expect(view.log).toEqual([{ payload: utf8("x"), at: NOW }]);
  });

  it("is a duplicate when its own producer sends it again", () => {
    const view = viewOf();
    const input = append(by(0, 0));
    expect(view.run(decide(view, input)).kind).toBe("appended");
    expect(view.run(decide(view, input))).toMatchObject({ kind: "duplicate", next: { generation: 3, seq: 8 } });
    expect(view.log.length).toBe(1);
  });

  it("gives id, key and attributes to every message of a batch", () => {
    const view = viewOf();
    view.run(decide(view, append({ payloads: pair, messageId: "i", messageKey: "k", attributes: { a: "b" } })));
    expect(view.log).toEqual(pair.map((payload) => ({ payload, at: NOW, id: "i", key: "k", attributes: { a: "b" } })));
  });

  it("never dates a message before the one in front of it, even when the clock was set back", () => {
    const view = viewOf({ at: NOW + 500 });
    view.run(decide(view, append()));
    expect(view.head.at).toBe(NOW + 500);
  });

  it("closes the stream as a use of it and remembers which producer's request closed it", () => {
    const view = viewOf({ known: MINE });
    const last = append({ ...by(2, 6), ...closing });
    view.run(decide(view, last));
    const closedBy = { id: "p", epoch: 2, seq: 6 };
    expect(view.get(metaTable, "")).toMatchObject({ closed: true, closedBy, touchedAt: NOW });
    expect(view.run(decide(view, last))).toMatchObject({ kind: "duplicate", closed: true });
  });

  it("writes no row when it has neither producer nor Stream-Seq, although it slides the TTL", () => {
    const { changes } = decide(viewOf({ meta: { config: { contentType: TEXT, ttlSeconds: 3_600 } } }), append());
    expect(changes?.map(({ op }) => op)).toEqual(["append"]);
  });

  it("trims what retention no longer asks for, in the same decision", () => {
    const view = viewOf({ meta: { config: { contentType: TEXT, retention: { maxMessages: 1 } } } });
    for (let i = 0; i < 3; i++) view.run(decide(view, append()));
    expect(view.head.start).toEqual({ generation: 3, seq: 9 });
  });
});
