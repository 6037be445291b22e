/** The request to stop a publisher: each row is one decision on a small view. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Channel, delta, end, LIMITS, start } from "../../../../test/support/rule-channel.ts";
import { stopRule } from "./stopping.ts";

const stop = ({ view }: Channel, now = 0, reason?: string) =>
  view.run(stopRule(view, now, "c", { reason }, LIMITS)).kind;

describe("a request to stop", () => {
  it("is refused for a channel that has not started, has ended or has expired", () => {
    expect(stop(new Channel())).toBe("absent");
    const ended = new Channel(start, end(1));
    expect(stop(ended)).toBe("ended");
    expect(stop(ended, 1_000)).toBe("absent");
    expect(ended.sequences).toEqual([0, 1]);
  });

  it("is an entry of the log once, however often it comes, and the first reason stays", () => {
    const channel = new Channel(start);
    expect([stop(channel, 0, "enough"), stop(channel, 0, "again")]).toEqual(["stopped", "stopped"]);
    expect(channel.shown.slice(1)).toEqual([{ channelId: "c", reason: "enough" }]);
    expect(channel.publish(delta(1))).toMatchObject({ kind: "published", stop: { reason: "enough" } });
  });

  it("is told by every later publish answer, that of a repetition included, and by none before", () => {
    const channel = new Channel(start);
    expect(channel.publish(delta(1))).not.toHaveProperty("stop");
    stop(channel);
    for (const message of [delta(1), delta(2), end(3)]) {
      expect(channel.publish(message)).toHaveProperty("stop", { reason: undefined });
    }
  });

  it("ends with its channel: the next channel of the same id is not asked to stop", () => {
    const channel = new Channel(start);
    stop(channel);
    channel.publish(end(1));
    expect(channel.publishAt(1_000, start)).not.toHaveProperty("stop");
  });

  it("leaves no gap: the publisher's next sequence follows, and a skipped one is told as the gap that it is", () => {
    const channel = new Channel(start, delta(1));
    stop(channel);
    expect(channel.publish(delta(2))).toMatchObject({ sequence: 2, gap: undefined, gaps: 0 });
    const skipping = new Channel(start, delta(1));
    stop(skipping);
    expect(skipping.publish(delta(5))).toMatchObject({ sequence: 5, gap: 2, gaps: 1 });
    expect(skipping.publish(delta(3))).toMatchObject({ kind: "passed", last: 5 });
  });

  it("leaves every message recognizable, wherever it comes among messages and gaps", () => {
    const steps = fc.array(fc.oneof({ weight: 5, arbitrary: fc.constant(1) }, fc.integer({ min: 2, max: 4 })), {
      minLength: 1,
      maxLength: 30,
    });
    const property = fc.property(steps, fc.nat(30), (gaps, before) => {
      const channel = new Channel(start);
      channel.limits = { ...LIMITS, runs: 64, messages: 1_000 };
      const answers: object[] = [];
      let sequence = 0;
      for (const [i, step] of gaps.entries()) {
        if (i === before) channel.view.run(stopRule(channel.view, 0, "c", {}, channel.limits));
        sequence += step;
        answers.push(channel.publishAt(0, delta(sequence)));
      }
      sequence = 0;
      for (const [i, step] of gaps.entries()) {
        sequence += step;
        const { appended: _appended, gaps: _gaps, stop: _stop, ...place } = answers[i] as Record<string, unknown>;
        expect(channel.publishAt(0, delta(sequence))).toMatchObject({ ...place, appended: 0 });
      }
    });
    fc.assert(property, { numRuns: 200 });
  });
});
