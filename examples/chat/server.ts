/**
 * What is behind the page: the beginning of the conversation, and the page itself. `main.ts` starts it.
 *
 * Invariants: pages append to the rooms and read them at Sluice itself; nothing here stands in between.
 */
import { Sluice } from "@sluice/client";
import type { Stage } from "../web/run.ts";
import { beginningOf, ROOMS, type Said, streamOf } from "./rooms.ts";

/** There is nothing to end: everything after this happens between pages and Sluice. */
export async function startExample({ web, sluiceUrl, publicUrl = sluiceUrl }: Stage): Promise<undefined> {
  await openRooms(new Sluice({ url: sluiceUrl }));
  await web.show(new URL("page/", import.meta.url), publicUrl);
}

/** The first start makes the streams with their first messages; a later one finds them and changes nothing. */
async function openRooms(sluice: Sluice): Promise<void> {
  for (const { id } of ROOMS) {
    await sluice.stream<Said>(streamOf(id)).create({ messages: beginningOf(id, Date.now()) });
  }
}
