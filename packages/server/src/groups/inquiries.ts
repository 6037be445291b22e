/**
 * Questions between nodes: what does your leader of this group know? The service asks the node that leads, so that every node
 * shows the same; the feature answers for the leaders of this node.
 *
 *     question  { inquiry: 1, id, group }              answer  { inquiry: 1, id, part, parts, text }
 *
 * Invariants: the wait for an answer is bounded, and a lost question is asked again within it. An answer that is larger than one
 * message travels in parts; without all of them there is no answer.
 */
import { hex, utf8 } from "../core/bytes.ts";
import type { World } from "../core/world.ts";
import type { Engine, Unwatch } from "../engine/contract.ts";
import { readTold } from "../engine/told.ts";
import type { LeaderView } from "./leader-view.ts";

export interface InquiryParts {
  readonly engine: Pick<Engine, "node" | "tell" | "onTold">;
  readonly world: Pick<World, "after" | "randomBytes">;
  /** How long the asking node waits. */
  readonly askMs: number;
  /** What the leader on this node knows of a group, by the key of its entity. */
  viewOf(group: string): LeaderView | undefined;
}

interface Question {
  readonly inquiry: 1;
  readonly id: string;
  readonly group: string;
}

interface Answer {
  readonly inquiry: 1;
  readonly id: string;
  readonly part: number;
  readonly parts: number;
  /** A part of a view as JSON; of "null" if this node does not lead the group. */
  readonly text: string;
}

interface Waiting {
  readonly parts: Map<number, string>;
  resolve(view: LeaderView | undefined): void;
}

const ID_BYTES = 8;
/** A character takes three bytes at most, quotes and escapes included. */
const PART_CHARS = 20_000;
const MAX_PARTS = 100;
/** Questions within the time of an answer. */
const QUESTIONS = 4;

export class Inquiries {
  private readonly waiting = new Map<string, Waiting>();
  private unlisten: Unwatch = () => {};

  constructor(private readonly parts: InquiryParts) {}

  start(): void {
    this.unlisten = this.parts.engine.onTold((bytes, from) => {
      const message = readTold<Question | Answer>(bytes, '"inquiry":1');
      if (message === undefined) return;
      if ("group" in message) this.answer(message, from);
      else this.take(message);
    });
  }

  stop(): void {
    this.unlisten();
    for (const { resolve } of [...this.waiting.values()]) resolve(undefined);
  }

  /** Undefined if that node does not lead the group, or does not answer in time. */
  ask(node: string, group: string): Promise<LeaderView | undefined> {
    const { engine, world, askMs, viewOf } = this.parts;
    if (node === engine.node) return Promise.resolve(viewOf(group));
    return new Promise((resolve) => {
      const ids: string[] = [];
      const end = (view: LeaderView | undefined) => {
        for (const cancel of cancels) cancel();
        for (const id of ids) this.waiting.delete(id);
        resolve(view);
      };
      const question = () => {
        // Each has an id of its own, because parts of two answers do not fit together.
        const id = hex(world.randomBytes(ID_BYTES));
        ids.push(id);
        this.waiting.set(id, { parts: new Map(), resolve: end });
        engine.tell(node, utf8(JSON.stringify({ inquiry: 1, id, group } satisfies Question)));
      };
      const cancels = [world.after(askMs, () => end(undefined))];
      for (let i = 1; i < QUESTIONS; i++) cancels.push(world.after((i * askMs) / QUESTIONS, question));
      question();
    });
  }

  private answer({ id, group }: Question, node: string): void {
    const { engine, viewOf } = this.parts;
    const text = JSON.stringify(viewOf(group) ?? null);
    const parts = Math.ceil(text.length / PART_CHARS);
    if (parts > MAX_PARTS) return;
    for (let part = 0; part < parts; part++) {
      const piece = text.slice(part * PART_CHARS, (part + 1) * PART_CHARS);
      engine.tell(node, utf8(JSON.stringify({ inquiry: 1, id, part, parts, text: piece } satisfies Answer)));
    }
  }

  private take({ id, part, parts, text }: Answer): void {
    const waiting = this.waiting.get(id);
    if (waiting === undefined) return;
    waiting.parts.set(part, text);
    if (waiting.parts.size < parts) return;
    const whole = Array.from({ length: parts }, (_, i) => waiting.parts.get(i) ?? "").join("");
    waiting.resolve(JSON.parse(whole) ?? undefined);
  }
}
