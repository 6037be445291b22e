/** From effects to the arguments of the commit function, listed in lua/plan.lua. */
import type { Effect, Message } from "../contract.ts";
import { rowName } from "./keys.ts";
import type { Argument } from "./resp.ts";

/** Payloads are not copied: a caller leaves its buffers alone until the commit has resolved. */
export function pushEffects(args: Argument[], effects: readonly Effect[]): void {
  for (const [i, effect] of effects.entries()) {
    switch (effect.op) {
      case "begin":
        args.push("begin", whole(effect.generation), whole(effect.at.generation), whole(effect.at.seq));
        break;
      case "append":
        pushMessages(args, effect.messages);
        break;
      case "put":
        args.push("put", rowName(effect), bufferOf(effect.value));
        break;
      case "drop":
        args.push("drop", rowName(effect));
        break;
      case "trim":
        args.push("trim", whole(effect.through.generation), whole(effect.through.seq), whole(effect.bytes));
        break;
      case "remind":
        args.push("remind", effect.atMs === null ? "" : whole(effect.atMs));
        break;
      case "destroy":
        if (i < effects.length - 1) throw new Error("destroy must be the last effect of its commit");
        args.push("destroy");
        break;
    }
  }
}

/** Most messages come with others of the same moment and carry a payload only: then that is all there is to send of each. */
function pushMessages(args: Argument[], messages: readonly Message[]): void {
  const at = messages[0]?.at;
  if (messages.every((message) => message.at === at && isPlain(message))) {
    args.push("append", String(messages.length), whole(at ?? 0));
    for (const { payload } of messages) args.push(bufferOf(payload));
  } else {
    args.push("append-each", String(messages.length));
    for (const message of messages) pushMessage(args, message);
  }
}

export function isPlain({ id, key, attributes }: Message): boolean {
  return id === undefined && key === undefined && attributes === undefined;
}

/** The payload, the time, how many words follow, then those: fields of the log's entry, in pairs. */
export function pushMessage(args: Argument[], { payload, at, id, key, attributes }: Message): void {
  const extra: string[] = [];
  if (id !== undefined) extra.push("i", id);
  if (key !== undefined) extra.push("k", key);
  if (attributes !== undefined) extra.push("t", JSON.stringify(attributes));
  args.push(bufferOf(payload), whole(at), String(extra.length), ...extra);
}

/** What is no number would be found out half way through a commit, which is not rolled back. */
export function whole(value: number): string {
  if (!Number.isSafeInteger(value)) throw new Error(`${value} is not a whole number`);
  return String(value);
}

export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
