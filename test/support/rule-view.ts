/**
 * One entity for unit tests of rules: its rows and messages are plain collections, and no engine is involved. A test runs a rule on
 * it and takes the decision; the changes are applied at once.
 *
 * Invariants: a row is read back as its table decodes it. A destroyed entity keeps only the generation that comes next.
 */

import { type Head, type LoggedMessage, type Message, NO_HEAD } from "../../packages/server/src/engine/contract.ts";
import type { Change } from "../../packages/server/src/engine/draft.ts";
import { headStep } from "../../packages/server/src/engine/head.ts";
import type { Decision, View } from "../../packages/server/src/engine/keeper.ts";
import type { Table } from "../../packages/server/src/engine/table.ts";

export class RuleView implements View {
  exists = false;
  head: Head = NO_HEAD;
  nextGeneration = 1;
  /** The reminder that the last `remind` change asked for; null when there is none. */
  reminder: number | null = null;
  /** Messages that were appended and not trimmed. */
  log: LoggedMessage[] = [];
  /** What the last decision asked for. */
  changes: readonly Change[] = [];
  private readonly rows = new Map<string, Uint8Array>();

  get<T>(table: Table<T>, key: string): T | undefined {
    const bytes = this.rows.get(`${table.name}/${key}`);
    return bytes === undefined ? undefined : table.decode(bytes);
  }

  /** Stores a row that no rule of the test stored. */
  set<T>(table: Table<T>, key: string, value: T): void {
    this.exists = true;
    this.rows.set(`${table.name}/${key}`, table.encode(value));
  }

  /** Applies what the rule decided on this view; returns its outcome. */
  take<O>({ outcome, changes = [] }: Decision<O>): O {
    this.changes = changes;
    for (const change of changes) this.apply(change);
    return outcome;
  }

  private apply(change: Change): void {
    switch (change.op) {
      case "put":
        this.set(change.table, change.key, change.value);
        return;
      case "drop":
        this.rows.delete(`${change.table.name}/${change.key}`);
        return;
      case "remind":
        this.reminder = change.atMs;
        return;
      case "begin":
        this.exists = true;
        this.nextGeneration = change.generation + 1;
        this.log = [];
        break;
      case "append":
        this.append(change.messages);
        break;
      case "trim":
        this.log = this.log.filter(({ position: { seq } }) => seq > change.through.seq);
        break;
      case "destroy":
        this.exists = false;
        this.reminder = null;
        this.log = [];
        this.rows.clear();
    }
    this.head = headStep(this.head, change);
  }

  private append(messages: readonly Message[]): void {
    const { generation, last } = this.head;
    this.log.push(...messages.map((message, i) => ({ ...message, position: { generation, seq: last.seq + 1 + i } })));
  }
}
