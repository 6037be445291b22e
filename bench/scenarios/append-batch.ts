// append-batch: a JSON array of 100 messages of 256 bytes per request, 64 connections, one stream. The peer only writes and
// syncs, 64 records at a time. Either of two results meets the target: the absolute rate, or half of the raw rate in the same
// rounds.

import { jsonBatch } from "../load/message.ts";
import { preparePosts } from "../load/wrk.ts";
import { RAW_SEGMENT, writeRawSegment } from "../peers/raw-segment.ts";
import { formatNumber, formatSpread, takeTurns } from "../rounds.ts";
import { type Bench, emptyOutcome, OURS, type Outcome, type Scenario } from "../scenario.ts";
import { median } from "../statistics.ts";
import { loadOurs } from "./append.ts";

const MESSAGES_PER_REQUEST = 100;
const DIFFERENT_BODIES = 32;
const LEAST_MESSAGES_PER_SECOND = 250_000;
const LEAST_RATIO = 0.5;

export const appendBatch: Scenario = {
  name: "append-batch",
  title: "append, 100 messages per request, 64 connections, 1 stream",
  needsWrk: true,
  run: runAppendBatch,
};

async function runAppendBatch(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const bodies = Array.from({ length: DIFFERENT_BODIES }, (_, i) => jsonBatch(i, MESSAGES_PER_REQUEST));
  const load = preparePosts(bench.freshDirectory("load"), 1, "application/json", bodies);
  const ours = async (seconds: number) => MESSAGES_PER_REQUEST * (await loadOurs(bench, load, seconds, outcome));

  const { figures, comparisons } = await takeTurns(bench, "messages acknowledged", "messages/s", [
    { name: OURS, run: () => ours(bench.options.seconds) },
    {
      name: RAW_SEGMENT,
      async run() {
        const directory = bench.freshDirectory("raw");
        const rate = await writeRawSegment(directory, bench.options.seconds);
        bench.removeDirectory(directory);
        return rate;
      },
    },
  ]);
  outcome.figures.push(...figures);
  outcome.comparisons.push(...comparisons);
  const rawRate = median(figures[1]!.values);
  outcome.targets.push(eitherTarget("messages acknowledged", figures[0]!.values, comparisons[0]!.ratios));

  if (bench.options.sustainedSeconds > 0) {
    const rate = await ours(bench.options.sustainedSeconds);
    const what = `messages over ${bench.options.sustainedSeconds} s with the drain`;
    bench.log(`${what}: ${formatNumber(rate)} messages/s`);
    outcome.figures.push({ contender: OURS, what, unit: "messages/s", values: [rate] });
    outcome.targets.push(eitherTarget(what, [rate], [rate / rawRate]));
  }
  return outcome;
}

function eitherTarget(what: string, rates: readonly number[], ratios: readonly number[]) {
  return {
    what,
    target: `>= ${formatNumber(LEAST_MESSAGES_PER_SECOND)} messages/s, or >= ${LEAST_RATIO}x ${RAW_SEGMENT}`,
    measured: `${formatSpread(rates)} messages/s, ${formatSpread(ratios)}x`,
    met: median(rates) >= LEAST_MESSAGES_PER_SECOND || median(ratios) >= LEAST_RATIO,
  };
}
