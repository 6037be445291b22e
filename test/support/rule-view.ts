/**
 * The state of one entity as a rule sees it, over plain maps: no keeper, no engine, no bytes. Tests of rules set it up with
 * `with`, hand it to a rule and let `run` apply the decision, so that the next rule sees its effect.
 *
 * Invariants: a rule changes nothing by itself; only `run` does. Heads follow the same steps as in every engine.
 */
import { type Head, type Message, NO_HEAD } from "../../packages/server/src/engine/contract.ts";
import type { Change } from "../../packages/server/src/engine/draft.ts";
import { headStep } from "../../packages/server/src/engine/head.ts";
import type { Decision, View } from "../../packages/server/src/engine/keeper.ts";
import type { Table } from "../../packages/server/src/engine/table.ts";

export class RuleView implements View {
  exists = false;
  nextGeneration = 1;
  /** The messages that `run` appended; trimming does not shorten it. */
  readonly log: Message[] = [];
  /** The time of the reminder; null when it was forgotten, undefined when none was ever asked for. */
  reminder: number | null | undefined;
  private readonly rows = new Map<string, Map<string, unknown>>();

  constructor(public head: Head = NO_HEAD) {}

  get<T>(table: Table<T>, key: string): T | undefined {
    return this.rows.get(table.name)?.get(key) as T | undefined;
  }

  /** Stores a row without a rule; undefined removes it. */
  with<T>(table: Table<T>, key: string, value: T | undefined): this {
    this.exists = true;
    const rows = this.rows.get(table.name) ?? new Map<string, unknown>();
    this.rows.set(table.name, rows);
    if (value === undefined) rows.delete(key);
    else rows.set(key, value);
    return this;
  }

  /** Applies what a rule decided and returns its outcome. */
  run<O>({ outcome, changes = [] }: Decision<O>): O {
    for (const change of changes) this.apply(change);
    return outcome;
  }

  private apply(change: Change): void {
    if (change.op === "put") return void this.with(change.table, change.key, change.value);
    if (change.op === "drop") return void this.with(change.table, change.key, undefined);
    this.head = headStep(this.head, change);
    if (change.op === "append") this.log.push(...change.messages);
    if (change.op === "remind") this.reminder = change.atMs;
    if (change.op === "begin") {
      this.exists = true;
      this.nextGeneration = change.generation + 1;
    }
    if (change.op === "destroy") {
      this.exists = false;
      this.reminder = undefined;
      this.rows.clear();
      this.log.length = 0;
    }
  }
}
