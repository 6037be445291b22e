/**
 * What is behind the page: the publisher of the notices, and the page itself. `main.ts` starts it.
 *
 * Invariants: only this program publishes; the page subscribes and reads.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type PublishResult, Sluice } from "@sluice/client";
import type { Answer } from "../web/page-server.ts";
import type { RunningExample, Stage } from "../web/run.ts";
import { DAY, type Notice, streamOf, TOPICS } from "./people.ts";

export interface Notifications extends RunningExample {
  publish(topic: string, notice: Notice): Promise<PublishResult>;
}

const MAX_TEXT = 280;

/** `paceMs` is the time between two notices of the day. */
export async function startExample(
  { web, sluiceUrl, publicUrl = sluiceUrl }: Stage,
  paceMs = 1_400,
): Promise<Notifications> {
  const sluice = new Sluice({ url: sluiceUrl });
  const closing = new AbortController();
  let day: Promise<void> | undefined;

  // One stream per topic. The publisher does not know its followers.
  for (const topic of TOPICS) await sluice.stream(streamOf(topic)).create({ maxMessages: 1_000 });
  await web.show(new URL("page/", import.meta.url), publicUrl);

  /** Appends the notice once, to the stream of the topic; Sluice copies it into the inbox of every follower. */
  function publish(topic: string, notice: Notice): Promise<PublishResult> {
    return sluice.stream<Notice>(streamOf(topic)).publish(notice);
  }

  async function send(body: string): Promise<Answer> {
    const { topic, text } = parsed(body);
    if (!TOPICS.includes(topic) || text === "") return { status: 400, body: "A notice needs a topic and a text." };
    const { fanout } = await publish(topic, { text: text.slice(0, MAX_TEXT) });
    return { status: 200, body: fanout };
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
  }

  return { publish, close };
}

function parsed(body: string): { topic: string; text: string } {
  try {
    const { topic, text } = JSON.parse(body) as { topic?: unknown; text?: unknown };
    return { topic: String(topic), text: typeof text === "string" ? text.trim() : "" };
  } catch {
    return { topic: "", text: "" };
  }
}
