// Members of a group, through `@sluice/client`, as a program would run them. The group scenarios use it.
//
// Invariants: the members have their shares before the first message comes, so no message moves. The time runs from the first
// message to the last acknowledgement that is durable. A message that comes twice is an error.

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

/** The seconds that the members take for all messages of their streams, which are filled. */
export async function consumeAll(url: URL, load: GroupLoad): Promise<number> {
  const { filter, mode, members, credit, messages, ackEvery } = load;
  const client = new Sluice({ url });
  await client.group(GROUP, filter, { mode }).declare();
  let lastEventMs = performance.now();
  let joined = 0;
  const onEvent = ({ type }: { readonly type: string }) => {
    lastEventMs = performance.now();
    if (type === "connected") joined++;
  };
  const groups = Array.from({ length: members }, () =>
    client.group(GROUP, filter, { mode, credit, WebSocket, onEvent }),
  );
  const seen = new Set<string>();
  const counts = new Map<string, number>();
  const acks: Promise<void>[] = [];
  let startedAt = 0;
  const done = new Promise<void>((resolve, reject) => {
    const work = async (group: (typeof groups)[number]) => {
      for await (const message of group) {
        startedAt ||= performance.now();
        const { stream, offset } = message;
        seen.add(stream + offset);
        const count = (counts.get(stream) ?? 0) + 1;
        counts.set(stream, count);
        if (count % ackEvery === 0) acks.push(message.ack());
        if (seen.size === messages) resolve();
      }
    };
    for (const group of groups) work(group).catch(reject);
  });
  while (joined < members || performance.now() - lastEventMs < QUIET_MS) await sleep(20);
  await client.group(GROUP).seek("earliest");
  await done;
  await Promise.all(acks);
  const seconds = (performance.now() - startedAt) / 1000;
  await client.close();
  const delivered = [...counts.values()].reduce((sum, count) => sum + count, 0);
  if (delivered !== messages) throw new Error(`${delivered} deliveries of ${messages} messages`);
  return seconds;
}
