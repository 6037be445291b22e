/**
 * Actors around the other features: a reader that follows a log, sessions with inboxes, channels, and a webhook. Each compares
 * what it was given with the logs in the end.
 */
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { eventually } from "../support/eventually.ts";
import { type Actor, appender, JSON_TYPE, type NewActor } from "./actors-streams.ts";
import type { Wire } from "./wire.ts";

/** Follows another actor's log by long-polling, and must be shown exactly that log. */
export function follower(of: string): NewActor {
  return async (wire) => {
    const shown: string[] = [];
    let offset = "-1";
    return {
      async step() {
        const answer = await wire.ask("GET", `stream/${of}?offset=${offset}&live=long-poll`);
        if (answer === undefined || answer.status === 503) return;
        if (answer.status !== 200 && answer.status !== 204) throw new Error(`following ${of}: ${answer.status}`);
        if (answer.status === 200) shown.push(...(JSON.parse(answer.text) as string[]));
        offset = answer.header("stream-next-offset") ?? offset;
      },
      async findings() {
        const log = await wire.log<string>(of);
        const differs = shown.findIndex((text, i) => text !== log[i]);
        return differs < 0 ? [] : [`${of}: a reader was shown ${shown[differs]} at ${differs}, not ${log[differs]}`];
      },
    };
  };
}

interface Copy {
  readonly stream: string;
  readonly payload: string;
}

/** A session that is subscribed before anything is written, and whose inbox must hold all of it, once and in order. */
export function subscriber(sources: readonly string[]): NewActor {
  return async (wire, random) => {
    const sessionId = randomUUID();
    for (const streamId of sources) {
      const body = JSON.stringify({ sessionId, streamId, format: "envelope" });
      await wire.must([200], "POST", "default/subscribe", { headers: JSON_TYPE, body });
    }
    const restless = new RestlessSession(wire, random.pick(sources));
    return {
      step: () => restless.step(),
      async findings() {
        const found: string[] = [];
        for (const source of sources) {
          const log = await wire.log<string>(source);
          let copies: string[] = [];
          // Copies that the last kill interrupted are made up for.
          const same = async () => {
            const inbox = await wire.log<Copy>(`session:${sessionId}`);
            copies = inbox.filter(({ stream }) => stream === source).map(({ payload }) => payload);
            if (copies.length < log.length) throw new Error("copies are missing");
          };
          await eventually(same, 30_000).catch(() => found.push(`${source}: ${log.length - copies.length} not copied`));
          const differs = copies.findIndex((text, i) => text !== log[i]);
          if (differs >= 0) found.push(`${source}: copy ${differs} is ${copies[differs]} instead of ${log[differs]}`);
        }
        return [...found, ...(await restless.findings())];
      },
    };
  };
}

/** A session that comes and goes: after its end, nothing of it is left. */
class RestlessSession implements Actor {
  private sessionId: string | undefined;

  constructor(
    private readonly wire: Wire,
    private readonly streamId: string,
  ) {}

  async step(): Promise<void> {
    const { wire, streamId } = this;
    if (this.sessionId === undefined) {
      this.sessionId = randomUUID();
      const body = JSON.stringify({ sessionId: this.sessionId, streamId });
      await wire.must([200], "POST", "default/subscribe", { headers: JSON_TYPE, body });
      await wire.must([200], "GET", `default/session/${this.sessionId}`);
      return;
    }
    await wire.must([204, 404], "DELETE", `default/session/${this.sessionId}`);
    await wire.must([404], "GET", `default/session/${this.sessionId}`);
    await wire.must([404], "GET", `stream/session:${this.sessionId}?offset=-1`);
    this.sessionId = undefined;
  }

  async findings(): Promise<string[]> {
    return [];
  }
}

/** Publishes answers token by token, and repeats what was not answered. Its events must be exactly the tokens. */
export const publisher: NewActor = async (wire, random, name) => {
  const ended: { readonly id: string; readonly last: number }[] = [];
  let answer = 0;
  let sequence = 0;
  const id = () => `${name}-${answer}`;
  return {
    async step() {
      const phase = sequence === 0 ? "START" : random.chance(0.05) ? "END" : "DELTA";
      const message = { phase, sequence, payload: `token ${sequence}` };
      const path = `default/channels/${id()}/publish`;
      await wire.must([202], "POST", path, { headers: JSON_TYPE, body: JSON.stringify(message) });
      if (phase !== "END") return void sequence++;
      ended.push({ id: id(), last: sequence });
      if (ended.length > 5) ended.shift();
      [answer, sequence] = [answer + 1, 0];
    },
    async findings() {
      const found: string[] = [];
      for (const { id, last } of ended) {
        const { text } = await wire.must([200], "GET", `default/channels/${id}/events`);
        const sequences = [...text.matchAll(/"sequence":(\d+)/g)].map(([, number]) => Number(number));
        const right = sequences.length === last + 1 && sequences.every((number, i) => number === i);
        if (!right) found.push(`${id}: ${last + 1} tokens were acknowledged, the events have ${sequences.join(" ")}`);
      }
      return found;
    },
  };
};

/** Streams with a webhook, which must be told of everything that was acknowledged. */
export function webhook(atEnd: (clean: () => void) => void): NewActor {
  return async (wire, random, name) => {
    const listener = createServer((request, response) => {
      request.resume();
      request.on("end", () => response.setHeader("Content-Type", "application/json").end('{"done":true}'));
    });
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    atEnd(() => listener.close());
    const { port } = listener.address() as { port: number };
    const path = `stream/__ds/subscriptions/${name}`;
    const asked = { type: "webhook", pattern: `${name}/*`, webhook: { url: `http://127.0.0.1:${port}/` } };
    await wire.must([200, 201], "PUT", path, { headers: JSON_TYPE, body: JSON.stringify(asked) });
    const writers = await Promise.all([0, 1, 2].map((i) => appender(wire, random.branch(), `${name}/${i}`)));
    const untold = async (): Promise<string[]> => {
      const { text } = await wire.must([200], "GET", path);
      const { streams } = JSON.parse(text) as { streams: { path: string; acked_offset: string }[] };
      const found: string[] = [];
      for (const i of writers.keys()) {
        const tail = (await wire.must([200], "HEAD", `stream/${name}/${i}`)).header("stream-next-offset");
        const acked = streams.find((one) => one.path === `${name}/${i}`)?.acked_offset;
        if (acked !== tail) found.push(`${name}/${i}: told up to ${acked} of ${tail}`);
      }
      return found;
    };
    return {
      step: () => random.pick(writers).step(),
      async findings() {
        let found: string[] = [];
        const told = async () => {
          found = await untold();
          if (found.length > 0) throw new Error(found.join());
        };
        await eventually(told, 30_000).catch(() => {});
        return [...found, ...(await Promise.all(writers.map((writer) => writer.findings()))).flat()];
      },
    };
  };
}
