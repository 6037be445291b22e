/**
 * What is behind the page: a Sluice server in a process of its own, a web server for three files, and the first text of the
 * document. `main.ts` starts it.
 *
 * Invariants: pages append to the document and read it at Sluice itself; nothing here stands in between.
 */
import { Sluice } from "@sluice/client";
import { PageServer } from "../web/page-server.ts";
import type { Place } from "../web/run.ts";
import { SluiceProcess } from "../web/sluice-process.ts";
import { type Edit, FIRST_DOCUMENT, streamOf } from "./edit.ts";
import { Replica } from "./replica.ts";

export interface ExampleOptions extends Place {
  /** Further arguments of `sluice serve`. */
  readonly args?: readonly string[] | undefined;
}

export interface RunningExample {
  /** Address of the page. */
  readonly url: string;
  readonly server: SluiceProcess;
  close(): Promise<void>;
}

export const FIRST_TEXT = `Packing list for the lake house

Friday, 16:00 at the bakery. Bring less than last time.

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

export async function startExample({ port, sluicePort, data, args }: ExampleOptions): Promise<RunningExample> {
  const web = await PageServer.listen(port);
  const server = await SluiceProcess.start({ port: sluicePort, data, args });
  await writeFirstText(server.url);
  await web.show(new URL("page/", import.meta.url), server.url);
  web.on("/kill", server.onKill);
  const close = async () => {
    await web.close();
    await server.close();
  };
  return { url: web.url, server, close };
}

/** The first start makes the stream with its first message; a later one finds it and changes nothing. */
async function writeFirstText(url: string): Promise<void> {
  const first: Edit = { by: "Sluice", operations: [new Replica("first").insert(FIRST_TEXT, undefined)] };
  await new Sluice({ url }).stream<Edit>(streamOf(FIRST_DOCUMENT)).create({ messages: [first] });
}
