/**
 * The page: which worker has which city, how many orders wait, and buttons to end workers. It only looks: the group goes on without it.
 *
 * Invariants: what is shown is what Sluice tells of the group. A count begins when the page is opened.
 */
import { type GroupInfo, Sluice } from "@sluice/client";
import { killOnClick } from "../../web/kill-button.ts";
import { CITIES, GROUP, PACKED, type Packed, streamOf, type WorkerState } from "../shop.ts";
import { CityView } from "./city-view.ts";
import { WorkerView } from "./worker-view.ts";

declare const SLUICE_URL: string;
const LOOK_MS = 300;
const MAX_MOVES = 12;

const element = (id: string) => document.getElementById(id)!;
const sluice = new Sluice({ url: SLUICE_URL, retries: { maxMs: 1_000, giveUpMs: Number.POSITIVE_INFINITY } });
const group = sluice.group(GROUP);
const cities = new Map(CITIES.map((city) => [streamOf(city), new CityView(city)]));
const workers = new WorkerView((words) => void askWorkers(words));
const seen = new Set<string>();
let twice = 0;

/** Looks at the group again and again. This is the part to read. */
async function watch(): Promise<never> {
  for (;;) {
    try {
      const [info] = await Promise.all([group.info({ giveUpMs: 0 }), askWorkers("")]);
      show(info);
      showStatus(true);
    } catch {
      showStatus(false);
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

function show({ streams, members, lag, oldestUnackedMs }: GroupInfo): void {
  for (const stream of streams) {
    const move = cities.get(stream.stream)?.show(stream);
    if (move !== undefined) tellMove(move);
  }
  workers.showMembers(members);
  element("lag").textContent = String(lag);
  element("oldest").textContent = oldestUnackedMs === null ? "–" : `${(oldestUnackedMs / 1_000).toFixed(1)} s`;
}

/** Follows what the workers have packed. An order that comes again was packed twice. */
async function followPacked(): Promise<void> {
  for await (const item of sluice.stream<Packed>(PACKED).read({ from: "now", live: true })) {
    if (item.type !== "message") continue;
    const { order, city, by } = item.value;
    const isAgain = seen.has(order);
    seen.add(order);
    if (isAgain) twice++;
    cities.get(streamOf(city))?.flash(by, isAgain);
    element("packed").textContent = String(seen.size);
    element("twice").textContent = String(twice);
  }
}

async function askWorkers(words: string): Promise<void> {
  const answer = await fetch("/workers", { method: "POST", body: words });
  workers.show((await answer.json()) as WorkerState[]);
}

function tellMove(words: string): void {
  const moves = element("moves");
  moves.prepend(Object.assign(document.createElement("li"), { textContent: words }));
  while (moves.children.length > MAX_MOVES) moves.lastElementChild!.remove();
}

function showStatus(isLive: boolean): void {
  document.documentElement.dataset.status = isLive ? "live" : "offline";
  element("status").textContent = isLive ? "Live" : "Server away";
}

element("cities").replaceChildren(...[...cities.values()].map((city) => city.element));
element("workers").replaceChildren(...workers.elements);
element("rush").addEventListener("click", () => void fetch("/rush", { method: "POST" }));
element("pause").addEventListener("click", async () => {
  const { isPaused } = (await (await fetch("/pause", { method: "POST" })).json()) as { isPaused: boolean };
  element("pause").textContent = isPaused ? "Go on with orders" : "Pause orders";
});
killOnClick(element("kill"), (words) => {
  element("killed").textContent = words;
});
void followPacked();
await watch();
