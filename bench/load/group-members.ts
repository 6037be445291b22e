// Members of a group, through `@sluice/client`, as a program would run them. The group scenarios use it.
//
// Invariants: the time runs from the first subscription to the last acknowledgement that is durable. Every message is counted once;
// one that comes again, or is missing, is an error.

import { Sluice } from "@sluice/client";
import { WebSocket } from "ws";

export interface GroupLoad {
  readonly group: string;
  readonly filter: string;
  readonly mode: "share" | "queue";
  readonly members: number;
  /** Messages that a member takes unacknowledged. */
  readonly credit: number;
  readonly messages: number;
  /** Of a stream, every so many messages are acknowledged together. */
  readonly ackEvery: number;
}

/** The seconds that the members took. */
export async function consumeAll(url: URL, load: GroupLoad): Promise<number> {
  const { group: name, filter, mode, members, credit, messages, ackEvery } = load;
  const client = new Sluice({ url });
  const groups = Array.from({ length: members }, () => client.group(name, filter, { mode, credit, WebSocket }));
  const seen = new Set<string>();
  const counts = new Map<string, number>();
  const acks: Promise<void>[] = [];
  const startedAt = performance.now();
  await new Promise<void>((resolve, reject) => {
    const work = async (group: (typeof groups)[number]) => {
      for await (const message of group) {
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
  await Promise.all(acks);
  const seconds = (performance.now() - startedAt) / 1000;
  await client.close();
  const delivered = [...counts.values()].reduce((sum, count) => sum + count, 0);
  if (delivered !== messages) throw new Error(`${delivered} deliveries of ${messages} messages`);
  return seconds;
}
