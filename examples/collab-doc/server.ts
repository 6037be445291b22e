/**
 * What is behind the page: the first text of the document, and the page itself. `main.ts` starts it.
 *
 * Invariants: pages append to the document and read it at Sluice itself; nothing here stands in between.
 */
import { Sluice } from "@sluice/client";
import type { Stage } from "../web/run.ts";
import { type Edit, FIRST_DOCUMENT, streamOf } from "./edit.ts";
import { Replica } from "./replica.ts";

export const FIRST_TEXT = `The lake house, Friday to Sunday. We meet at 16:00 at the bakery. Bring less than last time.

Food
- bread, butter, two jars of the good honey
- coffee (Cleo has the grinder)
- something green, please

For the water
- towels, one each
- the inflatable flamingo
- sunscreen

Open questions
- Who drives the second car?
- Do we have enough sleeping bags?
`;

/** There is nothing to end: everything after this happens between pages and Sluice. */
export async function startExample({ web, sluiceUrl, publicUrl = sluiceUrl }: Stage): Promise<undefined> {
  await writeFirstText(new Sluice({ url: sluiceUrl }));
  await web.show(new URL("page/", import.meta.url), publicUrl);
}

/** The first start makes the stream with its first message; a later one finds it and changes nothing. */
async function writeFirstText(sluice: Sluice): Promise<void> {
  const first: Edit = { by: "Sluice", operations: [new Replica("first").insert(FIRST_TEXT, undefined)] };
  await sluice.stream<Edit>(streamOf(FIRST_DOCUMENT)).create({ messages: [first] });
}
