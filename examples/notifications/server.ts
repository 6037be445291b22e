/**
 * Everything behind the page, in one process: a Sluice server, a web server for three files, and the publisher of the
 * notices. `main.ts` starts it.
 *
 * Invariants: only this program publishes; the page subscribes and reads.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Sluice } from "@sluice/client";
import { createServer as createSluice } from "@sluice/server";
import { type Answer, PageServer } from "../web/page-server.ts";
import { DAY, type Notice, streamOf, TOPICS } from "./people.ts";

export interface ExampleOptions {
  /** Port of the page; any free one by default. */
  readonly port?: number | undefined;
  /** Time between two notices of the day. */
  readonly paceMs?: number | undefined;
  /** The address of Sluice for browsers, when a proxy stands in between. */
  readonly publicUrl?: ((sluiceUrl: string) => Promise<string>) | undefined;
}

export interface RunningExample {
  /** Address of the page. */
  readonly url: string;
  readonly sluiceUrl: string;
  publish(topic: string, notice: Notice): Promise<Told>;
  close(): Promise<void>;
}

/** How many inboxes a notice goes to, and how many have it by now. */
export interface Told {
  readonly inboxes: number;
  readonly reached: number;
  readonly mode: string;
}

const MAX_TEXT = 280;

export async function startExample({
  port = 0,
  paceMs = 1_400,
  publicUrl,
}: ExampleOptions = {}): Promise<RunningExample> {
  const web = await PageServer.listen(port);
  // Nothing is kept on disk. The page has another origin than Sluice, which allows pages of this machine while it has no keys.
  const server = await createSluice({ port: 0, memory: true });
  const sluice = new Sluice({ url: server.url });
  const closing = new AbortController();
  let day: Promise<void> | undefined;

  // One stream per topic. The publisher does not know its followers.
  for (const topic of TOPICS) await sluice.stream(streamOf(topic)).create({ maxMessages: 1_000 });
  await web.show(new URL("page/", import.meta.url), (await publicUrl?.(server.url)) ?? server.url);

  /** Appends the notice once, to the stream of the topic; Sluice copies it into the inbox of every follower. */
  async function publish(topic: string, notice: Notice): Promise<Told> {
    const { fanout } = await sluice.stream<Notice>(streamOf(topic)).publish(notice);
    return { inboxes: fanout.count, reached: fanout.successes, mode: fanout.mode };
  }

  async function send(body: string): Promise<Answer> {
    const { topic, text } = parsed(body);
    if (!TOPICS.includes(topic) || text === "") return { status: 400, body: "A notice needs a topic and a text." };
    return { status: 200, body: await publish(topic, { text: text.slice(0, MAX_TEXT) }) };
  }

  /** Publishes the whole day, one run at a time, with or without viewers. */
  async function runDay(): Promise<void> {
    for (const [topic, text] of DAY) {
      await publish(topic, { text });
      await sleep(paceMs, undefined, { signal: closing.signal });
    }
  }

  web.on("/send", send);
  web.on("/day", async () => {
    day ??= runDay()
      .catch((error) => closing.signal.aborted || console.error(error))
      .then(() => {
        day = undefined;
      });
    return { status: 202 };
  });

  async function close(): Promise<void> {
    closing.abort();
    await day;
    await web.close();
    await server.close();
  }

  return { url: web.url, sluiceUrl: server.url, publish, close };
}

function parsed(body: string): { topic: string; text: string } {
  try {
    const { topic, text } = JSON.parse(body) as { topic?: unknown; text?: unknown };
    return { topic: String(topic), text: typeof text === "string" ? text.trim() : "" };
  } catch {
    return { topic: "", text: "" };
  }
}
