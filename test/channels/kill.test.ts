/** A real server on disk that is killed in the middle of a publish: what it acknowledged is there, once and in order. */
import { expect, it } from "vitest";
import { dirForTest, serveInProcess } from "../support/sluice-process.ts";
import { Reader, readAll } from "./reader.ts";
import { Channel } from "./stage.ts";

const ROUNDS = process.env.SLUICE_DEEP === "1" ? 3 : 2;
const PUBLISHERS = 4;

interface Publisher {
  readonly id: string;
  sequence: number;
  acknowledged: number;
}

/** Publishes until the server is gone. Retries what was not answered, as a publisher does. */
async function publishUntilGone(url: string, publisher: Publisher): Promise<void> {
  const channel = new Channel(url, publisher.id);
  for (;;) {
    const { sequence } = publisher;
    const messageId = sequence % 2 === 0 ? `m${sequence}` : undefined;
    const phase = sequence === 0 ? "START" : "DELTA";
    const answer = await channel.send(phase, sequence, `token ${sequence}`, messageId).catch(() => undefined);
    if (answer === undefined) return;
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
    expect(answer.body).toMatchObject({ sequence });
    expect(answer.body.gap).toBeUndefined();
    publisher.acknowledged = sequence;
    publisher.sequence++;
  }
}

it("after a kill, every acknowledged message is there once and in order, and publishing goes on", async () => {
  const dir = dirForTest();
  const args = ["--data", dir, "--set", "channel.rate=1000000", "--set", "channel.messages=100000"];
  const publishers: Publisher[] = Array.from({ length: PUBLISHERS }, (_, i) => ({
    id: `answer-${i}`,
    sequence: 0,
    acknowledged: -1,
  }));
  for (let round = 0; round < ROUNDS; round++) {
    const { child, ended, url } = await serveInProcess(args);
    const before = publishers.map(({ acknowledged }) => acknowledged);
    const publishing = Promise.all(publishers.map((publisher) => publishUntilGone(url, publisher)));
    const watched = publishers[0]!;
    const reader = await Reader.open(`${new Channel(url, watched.id).events}?wait=true`);
    await reader.untilSequence(before[0]! + 50);
    child.kill("SIGKILL");
    await Promise.all([publishing, ended]);
    for (const [i, { acknowledged }] of publishers.entries()) expect(acknowledged).toBeGreaterThan(before[i]!);
    // What a reader was shown was durable, acknowledged or not.
    watched.acknowledged = Math.max(watched.acknowledged, reader.sequences.at(-1)!);
  }
  const { url } = await serveInProcess(args);
  for (const { id, sequence, acknowledged } of publishers) {
    const channel = new Channel(url, id);
    await channel.takes({ phase: "END", sequence: sequence + 1 });
    const { sequences, messages, gaps } = await readAll(channel.events);
    expect(gaps).toEqual([]);
    const last = sequences.at(-2)!;
    // The message that was on its way may be there or not.
    expect([sequence - 1, sequence]).toContain(last);
    expect(last).toBeGreaterThanOrEqual(acknowledged);
    expect(sequences.slice(0, -1)).toEqual(Array.from({ length: last + 1 }, (_, i) => i));
    expect(messages.slice(0, -1).map(({ data }) => data.payload)).toEqual(
      sequences.slice(0, -1).map((n) => `token ${n}`),
    );
  }
}, 60_000);
