/**
 * What is behind the page: the orders that come in, the workers, and the page itself. `main.ts` starts it.
 *
 * Invariants: this program hands out no work. The workers take part in a group, and Sluice shares the cities among them.
 */
import { Sluice } from "@sluice/client";
import type { Answer } from "../web/page-server.ts";
import type { RunningExample, Stage } from "../web/run.ts";
import { CITIES, FILTER, GROUP, type Order, PACKED, streamOf, WORKERS } from "./shop.ts";
import { WorkerProcess } from "./worker-process.ts";

export interface ShopOptions {
  /** The time between two orders. */
  readonly orderMs?: number | undefined;
  /** How long a worker packs one. */
  readonly packMs?: number | undefined;
  /** How many workers start at once. */
  readonly workers?: number | undefined;
}

const RUSH = 120;
/** What is kept of a stream. */
const MAX_MESSAGES = 10_000;

export async function startExample(
  { web, sluiceUrl, publicUrl = sluiceUrl }: Stage,
  { orderMs = 90, packMs = 400, workers = 4 }: ShopOptions = {},
): Promise<RunningExample> {
  const sluice = new Sluice({ url: sluiceUrl, retries: { maxMs: 1_000, giveUpMs: Number.POSITIVE_INFINITY } });
  await sluice.stream(PACKED).create({ maxMessages: MAX_MESSAGES });
  for (const city of CITIES) await sluice.stream(streamOf(city)).create({ maxMessages: MAX_MESSAGES });
  // Declared before its first member comes, so that it misses no order.
  await sluice.group(GROUP, FILTER).declare();

  const staff = WORKERS.map(({ id }) => new WorkerProcess(id, sluiceUrl, packMs));
  for (const worker of staff.slice(0, workers)) worker.start();

  function order(): void {
    const city = CITIES[Math.floor(Math.random() * CITIES.length)]!;
    const appended = sluice.stream<Order>(streamOf(city)).append({ id: crypto.randomUUID() });
    appended.catch((error: Error) => console.error(`an order was lost: ${error.message}`));
  }

  let isPaused = false;
  const orders = setInterval(() => isPaused || order(), orderMs);
  web.on("/rush", async () => {
    for (let i = 0; i < RUSH; i++) order();
    return { status: 202 };
  });
  web.on("/pause", async () => {
    isPaused = !isPaused;
    return { status: 200, body: { isPaused } };
  });
  web.on("/workers", async (body) => act(staff, body));
  await web.show(new URL("page/", import.meta.url), publicUrl);

  return {
    async close() {
      clearInterval(orders);
      await Promise.all(staff.map((worker) => worker.close()));
      await sluice.close();
    },
  };
}

/** Does what a button of a worker asks for, if one was pressed, and tells how all workers are. */
function act(staff: readonly WorkerProcess[], body: string): Answer {
  const [, id, deed] = /^(\w+) (start|stop|kill)$/.exec(body) ?? [];
  const worker = staff.find((one) => one.id === id);
  if (deed === "start") worker?.start();
  else if (deed === "stop") worker?.stop();
  else if (deed === "kill") worker?.kill();
  return { status: 200, body: staff.map(({ state }) => state) };
}
