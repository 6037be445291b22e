/**
 * The client as a page uses it. types-and-size.test.ts compiles it; it never runs.
 *
 * Invariants: it compiles against the published declarations with the types of a browser alone, and with those of Node
 * alone.
 */
import { type Schema, Sluice, SluiceError } from "@sluice/client";
import { usePresence, useSession, useStream } from "@sluice/client/react";
import { createResumableStreamContext } from "@sluice/client/resumable-stream";

declare function fetchToken(): Promise<string>;
declare const edits: Schema<{ op: "insert" | "delete"; at: number }, { op: string; at: number; seenAt: Date }>;

const sluice = new Sluice({ url: "https://streams.example.com", token: () => fetchToken(), headers: { "X-A": "b" } });

export async function streams(signal: AbortSignal): Promise<void> {
  const doc = sluice.stream("doc/9", { schema: edits });
  const { offset } = await doc.append({ op: "insert", at: 0 });
  // @ts-expect-error the schema knows no such edit
  await doc.append({ op: "rename", at: 0 });
  for await (const item of doc.read({ from: offset, live: true, signal })) {
    if (item.type === "gap") console.log(item.reason, item.from, item.to);
    else console.log(item.value.seenAt.getTime(), item.offset);
  }
  for await (const item of sluice.stream<string>("log", { contentType: "text/plain" }).read()) {
    if (item.type === "message") console.log(item.value.toUpperCase());
  }
  for await (const item of sluice.stream("unknown").read()) {
    // @ts-expect-error without a schema or a type the value is unknown
    if (item.type === "message") console.log(item.value.anything);
  }
}

export async function writes(): Promise<boolean | undefined> {
  const ledger = sluice.stream<number>("ledger", { producer: { id: "importer", epoch: 3 } });
  await ledger.append(1, { key: "k", seq: "0001" });
  // @ts-expect-error the last message is one of the stream
  await ledger.close({ message: "text" });
  const { deleted } = await ledger.delete({ giveUpMs: 5_000 });
  const { created } = await ledger.create({ messages: [1, 2], closed: true });
  return deleted ?? created;
}

export async function inboxes(id: string, signal: AbortSignal): Promise<void> {
  const inbox = sluice.inbox<{ stream: string; payload: string }>(id);
  await inbox.subscribe("notices/all", { format: "envelope", signal });
  for await (const item of inbox.live({ signal, marks: true })) {
    if (item.type === "message") console.log(item.value.stream, item.publishedAt?.toFixed());
    else console.log(item.type === "gap" ? item.reason : item.offset);
  }
  for await (const item of inbox.read()) {
    // @ts-expect-error without marks no mark comes
    if (item.type === "closed") console.log(item.offset);
  }
}

export async function live(): Promise<void> {
  const tab = await sluice.session({ WebSocket, storage: false });
  const doc = tab.subscribe<{ op: string }>("doc/9", (m) => console.log(m.value.op, m.offset), {
    from: "beginning",
    onGap: ({ from, to }) => console.log(from, to),
    onEnd: ({ reason, error }) => console.log(reason, error?.code),
  });
  // @ts-expect-error without a type the value is unknown
  tab.subscribe("doc/9", (m) => m.value.op);
  tab.on("status", (status) => console.log(status === "catching-up"));
  tab.on("catch-up", ({ stream, outcome, gaps }) => console.log(stream, outcome, gaps.length));
  const here = tab.presence("doc/9", { state: { cursor: 1 } });
  here.on("change", (members) => console.log(members.map(({ subject, state }) => [subject, state])));
  doc.unsubscribe();
  await tab.close();
}

export function Doc(): string {
  const { session, status } = useSession(sluice);
  const { messages } = useStream<{ op: string }>(session, "doc/9", { keep: 10 });
  const { members, setState } = usePresence(session, "doc/9", { cursor: messages.length });
  setState({ cursor: 0 });
  return `${status} ${messages.map(({ value }) => value.op)} ${members.length}`;
}

export async function channels(id: string): Promise<string> {
  const answer = sluice.channel(id).publisher();
  void answer.write("Hel");
  void answer.write("lo");
  await answer.end().catch((error: unknown) => {
    if (error instanceof SluiceError && error.code === "queue-full") console.log(error.retryable);
  });
  for await (const part of sluice.channel(id).read()) {
    if (part.type === "delta") console.log(part.payload);
  }
  return sluice.channel(id).text();
}

export const context = createResumableStreamContext({ sluice, waitUntil: null });
