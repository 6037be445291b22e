/**
 * A worker: a member of the group, in a process of its own. `server.ts` starts several; the page kills them.
 *
 * Invariants: an order counts as packed when that is stored. A worker that is killed in between leaves the order to another one, which
 * packs it again: that is what "at least once" means.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Sluice } from "@sluice/client";
import { WebSocket } from "ws";
import { cityOf, FILTER, GROUP, type Order, PACKED, type Packed } from "./shop.ts";

const [url = "", member = "", packMs = "400"] = process.argv.slice(2);
const sluice = new Sluice({ url, retries: { maxMs: 1_000, giveUpMs: Number.POSITIVE_INFINITY } });
const packed = sluice.stream<Packed>(PACKED);
const group = sluice.group<Order>(GROUP, FILTER, { member, credit: 8, WebSocket });

process.once("SIGTERM", () => void group.close());
await group.run(
  async ({ stream, value }) => {
    await sleep(Number(packMs));
    await packed.append({ order: value.id, city: cityOf(stream), by: member });
  },
  { concurrency: 4 },
);
await sluice.close();
