/**
 * Everything behind the page, in one process: a Sluice server, a web server for three files, and the publisher of the
 * answers. `main.ts` starts it.
 *
 * Invariants: an answer is written to its end, with or without viewers. The number of answers in progress is bounded.
 */
import { randomUUID } from "node:crypto";
import { Sluice } from "@sluice/client";
import { createServer as createSluice } from "@sluice/server";
import { PageServer } from "../web/page-server.ts";
import { type Model, madeUpModel } from "./answer.ts";

export interface ExampleOptions {
  /** Port of the page; any free one by default. */
  readonly port?: number | undefined;
  readonly model?: Model | undefined;
  /** The address of Sluice for browsers, when a proxy stands in between. */
  readonly publicUrl?: ((sluiceUrl: string) => Promise<string>) | undefined;
}

export interface RunningExample {
  /** Address of the page. */
  readonly url: string;
  readonly sluiceUrl: string;
  /** Connections that follow an answer at this moment. */
  readonly viewers: number;
  close(): Promise<void>;
}

const ANSWERS_AT_ONCE = 32;

export async function startExample({
  port = 0,
  model = madeUpModel,
  publicUrl,
}: ExampleOptions = {}): Promise<RunningExample> {
  const inTheMaking = new Set<Promise<void>>();
  const closing = new AbortController();

  const web = await PageServer.listen(port);

  // Nothing is kept on disk. The page has another origin than Sluice, which allows pages of this machine while it has no keys.
  const server = await createSluice({
    port: 0,
    memory: true,
    channel: { ttlMs: 10 * 60_000 },
  });
  const sluice = new Sluice({ url: server.url });
  await web.show(new URL("page/", import.meta.url), (await publicUrl?.(server.url)) ?? server.url);
  web.on("/ask", async () => {
    const id = await ask();
    if (id !== undefined) return { status: 201, body: { id } };
    return { status: 503, headers: { "Retry-After": "10" }, body: "Too many answers at once." };
  });

  /** Opens a channel and lets the publisher run: it depends neither on the request nor on the tab that made it. */
  async function ask(): Promise<string | undefined> {
    if (inTheMaking.size >= ANSWERS_AT_ONCE) return undefined;
    const id = randomUUID();
    const answer = sluice.channel(id).publisher({ start: { model: "made-up-1" } });
    const publishing = (async () => {
      try {
        // The publisher sends small requests, 16 a second, and retries each until it is acknowledged.
        for await (const token of model(closing.signal)) await answer.write(token);
        await answer.end();
      } catch (error) {
        // Readers get the error. If that fails too, they see the server itself disconnect.
        await answer.fail(error).catch(() => {});
      }
    })();
    inTheMaking.add(publishing);
    void publishing.finally(() => inTheMaking.delete(publishing));
    // The channel exists before any viewer learns its id.
    await answer.flush();
    return id;
  }

  async function close(): Promise<void> {
    closing.abort(new Error("the example was stopped"));
    await Promise.all(inTheMaking);
    await web.close();
    await server.close();
  }

  return {
    url: web.url,
    sluiceUrl: server.url,
    get viewers() {
      return server.tail.readers;
    },
    close,
  };
}
