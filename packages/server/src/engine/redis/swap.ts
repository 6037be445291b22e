/**
 * Builds the commonest commit, and the cheapest (lua/swap.lua): this node committed last, knows the whole head, and only
 * appends, trims or changes rows. It sends the head as it must be and as it becomes. A head that differs is answered `other`
 * and nothing has changed; `commits.ts` then sends the general commit under the same number.
 *
 * Invariants: the next head names this commit, so that the same commit sent again is recognized; the number in it makes every
 * head different from all others that an entity ever had.
 */
import type { Effect, Head, Message, Rev } from "../contract.ts";
import { headAfter } from "../head.ts";
import { bufferOf, isPlain, pushMessage, whole } from "./effects.ts";
import { type EntityKeys, rowName } from "./keys.ts";
import type { Argument } from "./resp.ts";

/** A head as this node left it. */
export interface KnownHead {
  readonly rev: Rev;
  readonly head: Head;
  /** The history of the master that holds it. */
  readonly history: string;
  /** As it is stored; lua/shared.lua draws it. */
  readonly text: string;
}

export function knownHead(rev: Rev, head: Head, history: string, writer: string, number: number): KnownHead {
  const { generation, last, bytes, at, start, startBytes, survived } = head;
  const numbers = `${rev} ${generation} ${last.generation} ${last.seq} ${bytes} ${at} ${start.generation} ${start.seq} ${startBytes}`;
  const lost = survived === undefined ? "0 0" : `${survived.generation} ${survived.seq}`;
  return { rev, head, history, text: `${numbers} ${lost} ${history} ${writer} ${number} -` };
}

export interface Swap {
  readonly keys: readonly string[];
  readonly args: readonly Argument[];
  readonly next: KnownHead;
}

/** Undefined when these effects take more than that. */
export function swapOf(
  keys: EntityKeys,
  known: KnownHead,
  effects: readonly Effect[],
  writer: string,
  number: number,
): Swap | undefined {
  const args: Argument[] = [known.text, "", known.history];
  const hasRows = pushEffects(args, known.head, effects);
  if (hasRows === undefined) return undefined;
  const { generation, last, bytes, at, start, startBytes } = headAfter(known.head, effects);
  // Written out, because this runs for every append.
  const head: Head = { generation, last, bytes, at, start, startBytes, survived: known.head.survived };
  // Revs that the general commit gives are microseconds, so that one more each time never gets ahead of them.
  const next = knownHead(known.rev + 1, head, known.history, writer, number);
  args[1] = next.text;
  const touched = hasRows ? [keys.head, keys.log, keys.rows, keys.order] : [keys.head, keys.log];
  return { keys: touched, args, next };
}

/** Whether rows change; undefined when something else does. */
function pushEffects(args: Argument[], { generation, last }: Head, effects: readonly Effect[]): boolean | undefined {
  let hasRows = false;
  const log = new Additions(args, generation, last.seq);
  for (const effect of effects) {
    if (effect.op === "append") {
      for (const message of effect.messages) log.add(message);
      continue;
    }
    log.end();
    if (effect.op === "put") args.push("put", rowName(effect), bufferOf(effect.value));
    else if (effect.op === "drop") args.push("drop", rowName(effect));
    else if (effect.op === "trim")
      args.push("trim", `${whole(effect.through.generation)}-${whole(effect.through.seq + 1)}`);
    else return undefined;
    hasRows ||= effect.op !== "trim";
  }
  log.end();
  return hasRows;
}

/** Messages of one moment that carry a payload only are sent as a run: append, how many, when, then an id and a payload each. */
class Additions {
  private atMs = 0;
  private count = 0;
  private countAt = 0;

  constructor(
    private readonly args: Argument[],
    private readonly generation: number,
    private seq: number,
  ) {}

  add(message: Message): void {
    const { args } = this;
    const id = `${this.generation}-${++this.seq}`;
    if (!isPlain(message)) {
      this.end();
      args.push("append-one", id);
      pushMessage(args, message);
      return;
    }
    if (this.count === 0 || message.at !== this.atMs) {
      this.end();
      this.atMs = message.at;
      this.countAt = args.length + 1;
      args.push("append", "", whole(message.at));
    }
    this.count++;
    args.push(id, bufferOf(message.payload));
  }

  end(): void {
    if (this.count > 0) this.args[this.countAt] = String(this.count);
    this.count = 0;
  }
}
