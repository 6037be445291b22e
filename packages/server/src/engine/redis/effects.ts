/** From effects to the arguments of the commit function, whose header in functions.ts lists them. */
import type { Effect, Message } from "../contract.ts";
import { rowName } from "./keys.ts";
import type { Argument } from "./node.ts";

/** Payloads are not copied: a caller leaves its buffers alone until the commit has resolved. */
export function effectArguments(effects: readonly Effect[]): Argument[] {
  const args: Argument[] = [];
  for (const [i, effect] of effects.entries()) {
    switch (effect.op) {
      case "begin":
        args.push("begin", String(effect.generation), String(effect.at.generation), String(effect.at.seq));
        break;
      case "append":
        args.push("append", String(effect.messages.length));
        for (const message of effect.messages) pushMessage(args, message);
        break;
      case "put":
        args.push("put", rowName(effect), bufferOf(effect.value));
        break;
      case "drop":
        args.push("drop", rowName(effect));
        break;
      case "trim":
        args.push("trim", String(effect.through.generation), String(effect.through.seq), String(effect.bytes));
        break;
      case "remind":
        args.push("remind", effect.atMs === null ? "" : String(effect.atMs));
        break;
      case "destroy":
        if (i < effects.length - 1) throw new Error("destroy must be the last effect of its commit");
        args.push("destroy");
        break;
    }
  }
  return args;
}

/** How many words follow the payload and the time, then those: fields of the log's entry, in pairs. */
function pushMessage(args: Argument[], { payload, at, id, key, attributes }: Message): void {
  const extra: string[] = [];
  if (id !== undefined) extra.push("i", id);
  if (key !== undefined) extra.push("k", key);
  if (attributes !== undefined) extra.push("t", JSON.stringify(attributes));
  args.push(String(extra.length), bufferOf(payload), String(at));
  // One by one costs less than a spread, and most messages have none.
  for (const word of extra) args.push(word);
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
