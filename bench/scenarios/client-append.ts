// client-append: one program appends messages of 256 bytes to one stream through a client, which batches them; it awaits only
// room. The peer is the public client of the protocol, against the same server. The client is in this process, the server in its
// own. The time runs until the last acknowledgement, and Sluice's includes the drain, as in the other append scenarios.

import { DurableStream, IdempotentProducer } from "@durable-streams/client";
import { Sluice } from "@sluice/client";
import { jsonMessage } from "../load/message.ts";
import { drainAndStop } from "../peers/sluice.ts";
import { formatNumber, ownTarget, takeTurns } from "../rounds.ts";
import { type Bench, emptyOutcome, OURS, type Outcome, recordTrouble, type Scenario } from "../scenario.ts";

const PUBLIC_CLIENT = "@durable-streams/client";
const LEAST_MESSAGES_PER_SECOND = 100_000;
const DIFFERENT_MESSAGES = 1_000;
/** Appends between two checks of the clock and of the remaining room. */
const BREATH = 200;
/** The most unacknowledged messages of the public client, which offers no back-pressure. */
const UNFLUSHED = 20_000;
const PATH = "bench/client";

export const clientAppend: Scenario = {
  name: "client-append",
  title: "append through a client that batches, 1 stream",
  needsWrk: false,
  run: runClientAppend,
};

/** Appends for this long; returns the number of acknowledged messages. */
type Load = (url: URL, seconds: number) => Promise<number>;

async function runClientAppend(bench: Bench): Promise<Outcome> {
  const outcome = emptyOutcome();
  const messages = Array.from({ length: DIFFERENT_MESSAGES }, (_, i) => JSON.parse(jsonMessage(i)) as object);
  const ours = (seconds: number) => measure(bench, outcome, OURS, loadOurs(messages), seconds);
  const { figures, comparisons } = await takeTurns(bench, "messages acknowledged", "messages/s", [
    { name: OURS, run: () => ours(bench.options.seconds) },
    {
      name: PUBLIC_CLIENT,
      run: () => measure(bench, outcome, PUBLIC_CLIENT, loadPublic(messages), bench.options.seconds),
    },
  ]);
  outcome.figures.push(...figures);
  outcome.comparisons.push(...comparisons);
  outcome.targets.push(ownTarget(figures[0]!, ">=", LEAST_MESSAGES_PER_SECOND));
  if (bench.options.sustainedSeconds > 0) {
    const what = `messages over ${bench.options.sustainedSeconds} s with the drain`;
    const rate = await ours(bench.options.sustainedSeconds);
    bench.log(`${what}: ${formatNumber(rate)} messages/s`);
    const figure = { contender: OURS, what, unit: "messages/s", values: [rate] };
    outcome.figures.push(figure);
    outcome.targets.push(ownTarget(figure, ">=", LEAST_MESSAGES_PER_SECOND));
  }
  return outcome;
}

/** Messages per second on a fresh server, warmed up, until everything is acknowledged and drained. */
async function measure(bench: Bench, outcome: Outcome, who: string, load: Load, seconds: number): Promise<number> {
  const directory = bench.freshDirectory("client");
  const server = await bench.startOurs(directory);
  const stream = new Sluice({ url: server.url }).stream(PATH);
  await stream.create();
  const warm = await load(server.url, bench.options.quick ? 1 : 2);
  const startedAt = performance.now();
  const sent = await load(server.url, seconds);
  const loadSeconds = (performance.now() - startedAt) / 1_000;
  for await (const { messages } of new Sluice({ url: server.url }).list({ prefix: PATH })) {
    if (messages !== warm + sent)
      recordTrouble(outcome, who, `${warm + sent} messages acknowledged, ${messages} there`);
  }
  const drain = await drainAndStop(server);
  bench.removeDirectory(directory);
  bench.log(
    `  ${formatNumber(sent / loadSeconds)}/s before the drain of ${drain.seconds.toFixed(2)} s by ${drain.how}`,
  );
  return sent / (loadSeconds + drain.seconds);
}

function loadOurs(messages: readonly object[]): Load {
  return async (url, seconds) => {
    const sluice = new Sluice({ url });
    const stream = sluice.stream(PATH);
    const until = performance.now() + seconds * 1_000;
    let sent = 0;
    while (performance.now() < until) {
      for (let i = 0; i < BREATH; i++) void stream.append(messages[sent++ % DIFFERENT_MESSAGES]);
      await stream.ready();
    }
    await sluice.close();
    return sent;
  };
}

function loadPublic(messages: readonly object[]): Load {
  return async (url, seconds) => {
    const handle = new DurableStream({ url: `${url.origin}/v1/stream/${PATH}`, contentType: "application/json" });
    let failure: Error | undefined;
    const producer = new IdempotentProducer(handle, `bench-${performance.now()}`, {
      onError: (error) => {
        failure ??= error;
      },
    });
    const until = performance.now() + seconds * 1_000;
    let sent = 0;
    while (performance.now() < until) {
      for (let i = 0; i < BREATH; i++) producer.append(JSON.stringify(messages[sent++ % DIFFERENT_MESSAGES]));
      if (sent % UNFLUSHED === 0) await producer.flush();
    }
    await producer.flush();
    if (failure !== undefined) throw failure;
    return sent;
  };
}
