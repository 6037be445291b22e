/**
 * The publishers and readers of a channel, over the simulated network. The channel scenario starts them.
 *
 * Invariants: both retry until they are done.
 */
import type { Stage } from "../../scenario.ts";
import { SseParser } from "../streams/sse.ts";
import { type Ledger, payloadOf, type Shown } from "./ledger.ts";

const PATIENCE_MS = 3_000;
const MAX_TRIES = 60;

export interface Message {
  readonly phase: string;
  readonly sequence: number;
  readonly messageId?: string | undefined;
  readonly payload: string;
}

export function pathOf(channel: string, step: "publish" | "events"): string {
  return `/v1/default/channels/${channel}/${step}`;
}

/** Publishes a whole answer, and repeats each request until it is answered. Ends early when the channel is gone. */
export async function publishAnswer(stage: Stage, ledger: Ledger, channel: string, count: number): Promise<void> {
  const { random, world } = stage;
  const hasIds = random.chance(0.5);
  const ends = random.chance(0.8);
  for (let sequence = 0; sequence < count; ) {
    const size = sequence === 0 ? 1 : Math.min(random.between(1, 3), count - sequence);
    const messages = Array.from({ length: size }, (_, i): Message => {
      const own = sequence + i;
      const phase = own === 0 ? "START" : own === count - 1 && ends ? "END" : own % 7 === 6 ? "ERROR" : "DELTA";
      return { phase, sequence: own, messageId: hasIds ? `id-${own}` : undefined, payload: payloadOf(channel, own) };
    });
    if (!(await publishUntilTaken(stage, ledger, channel, messages))) return;
    sequence += size;
    await world.sleep(random.between(0, random.pick([0, 50, 400])));
  }
}

async function publishUntilTaken(
  { random, world, network }: Stage,
  ledger: Ledger,
  channel: string,
  messages: readonly Message[],
): Promise<boolean> {
  const body = Buffer.from(JSON.stringify(messages.length === 1 ? messages[0] : { messages }));
  const spec = { method: "POST", path: pathOf(channel, "publish"), body };
  for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
    const answer = await network.request(spec, PATIENCE_MS);
    if (answer.kind === "reply") {
      const { status } = answer.head;
      const told = JSON.parse(Buffer.from(answer.body).toString());
      const last = messages.at(-1)!.sequence;
      if (status === 202) {
        if (told.sequence !== last || told.gap !== undefined)
          ledger.object(channel, `${last} got ${JSON.stringify(told)}`);
        ledger.acknowledge(channel, last, told.offset);
        return true;
      }
      if (told.code === "channel-not-started") return false;
      if (status !== 429 && status !== 503) ledger.object(channel, `${last} was refused: ${JSON.stringify(told)}`);
    }
    await world.sleep(random.between(1, 500));
  }
  return false;
}

export interface Followed {
  readonly log: { offset: string; sequence: number }[];
  /** The end of the last gap. */
  trimmed: string;
}

/** Follows until END, or until `enough`, over a bounded number of connections; sometimes leaves and resumes. */
export async function follow(
  stage: Stage,
  ledger: Ledger,
  channel: string,
  connections: number,
  enough: (sequence: number) => boolean = () => false,
): Promise<Followed> {
  const followed: Followed = { log: [], trimmed: "" };
  let lastId = "";
  let expected: number | undefined = 0;
  for (let i = 0; i < connections; i++) {
    const isDone = await connect(stage, channel, lastId, (event, id, data) => {
      if (id <= lastId) ledger.object(channel, `${id} came after ${lastId}`);
      lastId = id;
      if (event === "gap") {
        expected = undefined;
        followed.trimmed = data.earliest;
        return false;
      }
      const message = data as Shown;
      const { sequence, phase } = message;
      if (expected !== undefined && sequence !== expected)
        ledger.object(channel, `${sequence} came instead of ${expected}`);
      expected = sequence + 1;
      ledger.show(channel, id, message);
      followed.log.push({ offset: id, sequence });
      return phase === "END" || enough(sequence);
    });
    if (isDone) break;
    await stage.world.sleep(stage.random.between(0, 300));
  }
  return followed;
}

type Take = (event: string, id: string, data: Shown & { earliest: string }) => boolean;

/** One connection; returns whether nothing more will come. */
function connect({ network, random, world }: Stage, channel: string, lastId: string, take: Take): Promise<boolean> {
  return new Promise((resolve) => {
    const parser = new SseParser();
    let status = 0;
    const finish = (isDone: boolean) => {
      cancel();
      exchange.leave();
      resolve(isDone);
    };
    const headers: Record<string, string> = lastId === "" ? {} : { "last-event-id": lastId };
    const exchange = network.open(
      { method: "GET", path: pathOf(channel, "events"), search: "wait=true", headers },
      {
        head: (given) => {
          status = given.status;
        },
        chunk: (bytes) => {
          if (status !== 200) return;
          const events = parser.push(bytes).filter(({ data }) => data !== "");
          for (const { event, id, data } of events) if (take(event, id, JSON.parse(data))) return finish(true);
        },
        end: () => finish(status === 204),
        refused: () => finish(false),
        lost: () => finish(false),
      },
      random.pick([1, 1, 50, 2_000]),
    );
    const cancel = world.schedule("leaves", random.between(200, 8_000), () => finish(false));
  });
}
