// Members of a group, through `@sluice/client`, as a program would run them. The group scenarios use it.
//
// Invariants: the members have their shares before the first message comes. The time runs from the first message to the last
// acknowledgement that is durable. A message that comes again, because its member was taken for dead, is counted.

import { setTimeout as sleep } from "node:timers/promises";
import { Sluice } from "@sluice/client";
import { WebSocket } from "ws";

export interface GroupLoad {
  readonly filter: string;
  readonly mode: "share" | "queue";
  readonly members: number;
  /** Messages that a member takes unacknowledged. */
  readonly credit: number;
  readonly messages: number;
  /** Of a stream, every so many messages are acknowledged together. */
  readonly ackEvery: number;
}

const GROUP = "bench";
/** Nothing has moved for so long, so nothing will. */
const QUIET_MS = 1_000;

export interface Consumed {
  readonly seconds: number;
  /** Deliveries beyond one per message. */
  readonly again: number;
}

/** Lets the members process all messages of their streams, which are filled. */
export async function consumeAll(url: URL, load: GroupLoad): Promise<Consumed> {
  const { filter, mode, members, credit, messages, ackEvery } = load;
  const client = new Sluice({ url });
  await client.group(GROUP, filter, { mode }).declare();
  let lastEventMs = performance.now();
  let joined = 0;
  const onEvent = ({ type }: { readonly type: string }) => {
    lastEventMs = performance.now();
    if (type === "connected") joined++;
  };
  const confirmed = new Set<string>();
  let delivered = 0;
  let startedAt = 0;
  const done = new Promise<void>((resolve, reject) => {
    const work = async () => {
      for await (const message of client.group(GROUP, filter, { mode, credit, WebSocket, onEvent })) {
        startedAt ||= performance.now();
        delivered++;
        const { stream, offset } = message;
        // An offset ends with the number of its message.
        if (Number(offset.slice(-8)) % ackEvery !== 0) continue;
        const durable = () => {
          confirmed.add(stream + offset);
          if (confirmed.size === messages / ackEvery) resolve();
        };
        message.ack().then(durable, () => {});
      }
    };
    for (let i = 0; i < members; i++) work().catch(reject);
  });
  while (joined < members || performance.now() - lastEventMs < QUIET_MS) await sleep(20);
  await client.group(GROUP).seek("earliest");
  await done;
  const seconds = (performance.now() - startedAt) / 1000;
  await client.close();
  return { seconds, again: delivered - messages };
}
