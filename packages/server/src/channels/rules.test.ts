/** The rules of a channel: phases, sequences, message ids, limits and the sweep. Each row is one decision on a small view. */
import { describe, expect, it } from "vitest";
import {
  at,
  Channel,
  check,
  delta,
  deltas,
  end,
  LIMITS,
  message,
  published,
  type Row,
  start,
} from "../../../../test/support/rule-channel.ts";
import { marksTable } from "../engine/trimming.ts";
import { END_ATTRIBUTES, publishRule, sweepRule } from "./rules.ts";
import { metaTable } from "./state.ts";

describe("phases", () => {
  const whole = [start, delta(1), end(2)];
  const rows: readonly Row[] = [
    ["a START begins a channel", [], [start], published(0, 1, 1), [0]],
    ["a START may have any sequence", [], [message("START", 7)], published(7, 1, 1), [7]],
    ["a DELTA before START is refused", [], [delta(0)], { kind: "not-started" }, []],
    ["an END before START is refused", [], [end(0)], { kind: "not-started" }, []],
    ["an ERROR before START is refused", [], [message("ERROR", 0)], { kind: "not-started" }, []],
    ["a second START is refused", [start], [message("START", 1)], { kind: "started" }, [0]],
    ["the same START is the same message", [start], [start], published(0, 1, 0), [0]],
    ["a DELTA after END is refused", whole, [delta(3)], { kind: "ended" }, [0, 1, 2]],
    [
      "a START after END is refused while the channel is kept",
      whole,
      [message("START", 3)],
      { kind: "ended" },
      [0, 1, 2],
    ],
    ["a second END is refused", whole, [end(3)], { kind: "ended" }, [0, 1, 2]],
    ["the same END is the same message", whole, [end(2)], published(2, 3, 0), [0, 1, 2]],
    ["a repeated DELTA after END is the same message", whole, [delta(1)], published(1, 2, 0), [0, 1, 2]],
    ["one request may be a whole channel", [], [start, message("ERROR", 1), end(2)], published(2, 3, 3), [0, 1, 2]],
  ];
  it.each(rows)("%s", check);

  it("an END carries the attribute that readers of the log look for, and no other message does", () => {
    const { log } = new Channel(...whole).view;
    expect(log.map(({ attributes }) => attributes)).toEqual([undefined, undefined, END_ATTRIBUTES]);
  });
});

describe("sequences", () => {
  const passed = (sequence: number, last: number) => ({ kind: "passed", sequence, last });
  const gapped = [start, delta(4), delta(5)];
  const rows: readonly Row[] = [
    ["the next one is appended", [start], [delta(1)], published(1, 2, 1), [0, 1]],
    [
      "a repeated one has the place of the first",
      [start, delta(1), delta(2)],
      [delta(1)],
      published(1, 2, 0),
      [0, 1, 2],
    ],
    ["one that leaves some out is appended, and the gap is told", [start], [delta(4)], published(4, 2, 1, 1), [0, 4]],
    ["the next one after a gap has none", gapped, [delta(6)], published(6, 4, 1), [0, 4, 5, 6]],
    ["a repeated one tells its gap again", gapped, [delta(4)], published(4, 2, 0, 1), [0, 4, 5]],
    ["one that was left out is refused", gapped, [delta(3)], passed(3, 5), [0, 4, 5]],
    ["one before START is refused", [message("START", 7)], [delta(6)], passed(6, 7), [7]],
    [
      "the same one twice in a request is one message",
      [start],
      [delta(1), delta(1), delta(2)],
      published(2, 3, 2),
      [0, 1, 2],
    ],
    [
      "those of a request that are known are left out",
      [start, delta(1)],
      [delta(1), delta(2)],
      published(2, 3, 1),
      [0, 1, 2],
    ],
    [
      "a request tells its first gap and counts all",
      [start],
      [delta(1), delta(3), delta(4), delta(9)],
      published(9, 5, 4, 2, 2),
      [0, 1, 3, 4, 9],
    ],
    [
      "a refused message refuses its whole request",
      [start],
      [delta(1), delta(2), message("START", 3)],
      { kind: "started" },
      [0],
    ],
  ];
  it.each(rows)("%s", check);

  it("a gap is shown to readers with the message that follows it", () => {
    expect(new Channel(...gapped).shown.map(({ gap }) => gap)).toEqual([undefined, { expected: 1 }, undefined]);
  });

  it("of more gaps than are remembered the oldest messages count as passed", () => {
    const channel = new Channel(start, delta(2), delta(4), delta(6));
    expect(channel.publish(delta(2))).toEqual(published(2, 2, 0));
    expect(channel.publish(start)).toEqual(passed(0, 6));
    expect(channel.publish(delta(6))).toEqual(published(6, 4, 0, 5));
  });
});

describe("message ids", () => {
  const named = [start, delta(1, "one"), delta(2)];
  const rows: readonly Row[] = [
    ["a known id with its sequence is the same message", named, [delta(1, "one")], published(1, 2, 0), [0, 1, 2]],
    ["a known id with another sequence is the same message", named, [delta(3, "one")], published(1, 2, 0), [0, 1, 2]],
    [
      "another id for a sequence that has one is refused",
      named,
      [delta(1, "two")],
      { kind: "taken", sequence: 1 },
      [0, 1, 2],
    ],
    ["an id for a sequence without one is the same message", named, [delta(2, "two")], published(2, 3, 0), [0, 1, 2]],
    ["no id for a sequence that has one is the same message", named, [delta(1)], published(1, 2, 0), [0, 1, 2]],
    [
      "the same id twice in a request is one message",
      named,
      [delta(3, "x"), delta(4, "x")],
      published(3, 4, 1),
      [0, 1, 2, 3],
    ],
    ["a new id is appended", named, [delta(3, "two")], published(3, 4, 1), [0, 1, 2, 3]],
  ];
  it.each(rows)("%s", check);

  it("a message without an id gets one that no other message has", () => {
    const ids = new Channel(...named).shown.map(({ messageId }) => messageId);
    expect(ids).toEqual(["1-0", "one", "1-2"]);
  });

  it("an id is known as long as its message is kept, and taken anew afterwards", () => {
    const channel = new Channel(start);
    for (let sequence = 1; sequence <= 200; sequence++) channel.publish(delta(sequence, `m${sequence}`));
    const kept = channel.sequences;
    for (const sequence of [kept[0]!, kept[20]!, kept.at(-1)!]) {
      expect(channel.publish(delta(900, `m${sequence}`))).toMatchObject({ sequence, appended: 0 });
    }
    expect(channel.publish(delta(201, "m1"))).toMatchObject({ sequence: 201, appended: 1 });
  });

  it("ids of an earlier channel of the same name are not known", () => {
    const channel = new Channel(message("START", 0, "one"), end(1));
    channel.publishAt(1_000, start, delta(1, "one"));
    expect(channel.shown.map(({ messageId }) => messageId)).toEqual(["2-0", "one"]);
  });
});

describe("what a publish stores", () => {
  it("shows a reader the id, the channel, the phase, the sequence and the payload as it was sent", () => {
    expect(new Channel({ ...start, messageId: "m", payload: '{"n": 1.0}' }).view.log[0]!.payload).toEqual(
      new TextEncoder().encode('{"messageId":"m","channelId":"c","phase":"START","sequence":0,"payload":{"n": 1.0}}'),
    );
  });

  it("keeps at least as many messages as the limit says, and at most a twentieth more", () => {
    const channel = new Channel(start);
    for (const one of deltas(1, 200)) {
      channel.publish(one);
      expect(channel.view.log.length).toBeLessThanOrEqual(Math.ceil(40 * 1.05) + 1);
    }
    expect(channel.view.log.length).toBeGreaterThanOrEqual(40);
    expect(channel.sequences.at(-1)).toBe(200);
  });

  it("writes only the log for a plain DELTA within the interval and between two marks", () => {
    const channel = new Channel(start, delta(1));
    channel.publish(delta(2));
    expect(channel.view.changes.map(({ op }) => op)).toEqual(["append"]);
  });

  it("writes nothing for a repeated message", () => {
    const channel = new Channel(start, delta(1));
    channel.publishAt(900, delta(1));
    expect(channel.view.changes).toEqual([]);
  });

  it.each([
    ["a START has the sweep look at the first interval after the idle time", [[0, start]], 1_200],
    [
      "a DELTA in the same interval leaves that",
      [
        [0, start],
        [200, delta(1)],
      ],
      1_200,
    ],
    [
      "a later DELTA moves it to the next interval",
      [
        [0, start],
        [201, delta(1)],
      ],
      1_800,
    ],
    [
      "an END sets it to the end of the channel's time",
      [
        [0, start],
        [300, end(1)],
      ],
      1_300,
    ],
  ] as const)("%s", (_name, steps, reminder) => {
    const channel = new Channel();
    for (const [now, one] of steps) channel.publishAt(now, one);
    expect(channel.view.reminder).toBe(reminder);
    expect(channel.view.get(metaTable, "")!.remindAt).toBe(reminder);
  });
});

describe("a channel that is over", () => {
  it("is begun anew by a START although the sweep has not come, in a later generation and without its marks", () => {
    const channel = new Channel(start, ...deltas(1, 60), end(61));
    expect(channel.view.get(marksTable, "")).not.toBeUndefined();
    expect(channel.publishAt(999, start)).not.toMatchObject({ appended: 1 });
    expect(channel.publishAt(1_000, message("START", 5))).toMatchObject({ position: at(1, 2), sequence: 5 });
    expect(channel.sequences).toEqual([5]);
    expect(channel.view.get(marksTable, "")).toBeUndefined();
  });

  it("refuses everything but a START", () => {
    const channel = new Channel(start, end(1));
    expect(channel.publishAt(1_000, end(1))).toEqual({ kind: "not-started" });
  });
});

describe("the sweep", () => {
  it.each([
    [
      "keeps a channel that has not ended and was published to",
      [
        [0, start],
        [500, delta(1)],
      ],
      1_499,
      "kept",
      1_800,
    ],
    [
      "removes a channel that was not published to for the idle time",
      [
        [0, start],
        [500, delta(1)],
      ],
      1_500,
      "abandoned",
      undefined,
    ],
    [
      "keeps an ended channel until its time is over",
      [
        [0, start],
        [500, end(1)],
      ],
      1_499,
      "kept",
      1_500,
    ],
    [
      "removes an ended channel when its time is over",
      [
        [0, start],
        [500, end(1)],
      ],
      1_500,
      "ended",
      undefined,
    ],
    ["removes an entry without a channel", [], 0, "ghost", undefined],
  ] as const)("%s", (_name, steps, now, outcome, reminder) => {
    const channel = new Channel();
    for (const [published, one] of steps) channel.publishAt(published, one);
    expect(channel.sweep(now)).toBe(outcome);
    expect(channel.view.reminder).toBe(reminder);
    expect(channel.view.exists).toBe(outcome === "kept");
  });

  it("notes a reminder that a new interval moves, so that the next publish in that interval writes no row", () => {
    const { view } = new Channel(start, delta(1));
    const limits = { ...LIMITS, cleanupMs: 5_000 };
    expect(view.run(sweepRule(view, 900, limits))).toBe("kept");
    expect(view.reminder).toBe(5_000);
    view.run(publishRule(view, 950, { channel: "c", messages: [delta(2)] }, limits));
    expect(view.changes.map(({ op }) => op)).toEqual(["append"]);
  });

  it("leaves a removed channel's id to a new one in a later generation", () => {
    const channel = new Channel(start);
    channel.sweep(1_000);
    expect(channel.publishAt(1_001, start)).toMatchObject({ kind: "published", position: at(1, 2) });
  });
});
