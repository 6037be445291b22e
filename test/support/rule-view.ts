/**
 * The state of one entity as a rule sees it, over plain collections: no keeper and no engine. Tests of rules set it up with `with`,
 * hand it to a rule and let `run` apply the decision, so that the next rule sees its effect.
 *
 * Invariants: only `run` applies what a rule decides. Heads follow the same steps as in every engine. A row is read back as its
 * table decodes it. A destroyed entity keeps only the generation that comes next.
 */
import { type Head, type Message, NO_HEAD } from "../../packages/server/src/engine/contract.ts";
import type { Change } from "../../packages/server/src/engine/draft.ts";
import { headStep } from "../../packages/server/src/engine/head.ts";
import type { Decision, View } from "../../packages/server/src/engine/keeper.ts";
import type { Table } from "../../packages/server/src/engine/table.ts";

export class RuleView implements View {
  exists = false;
  nextGeneration = 1;
  /** The messages that `run` appended and did not trim. */
  log: Message[] = [];
  /** The time of the reminder; null when it was forgotten, undefined when none was ever asked for. */
  reminder: number | null | undefined;
  /** What the last decision asked for. */
  changes: readonly Change[] = [];
  private readonly rows = new Map<string, Uint8Array>();

  constructor(public head: Head = NO_HEAD) {}

  get<T>(table: Table<T>, key: string): T | undefined {
    const bytes = this.rows.get(`${table.name}/${key}`);
    return bytes === undefined ? undefined : table.decode(bytes);
  }

  /** Stores a row without a rule; undefined removes it. */
  with<T>(table: Table<T>, key: string, value: T | undefined): this {
    this.exists = true;
    const name = `${table.name}/${key}`;
    if (value === undefined) this.rows.delete(name);
    else this.rows.set(name, table.encode(value));
    return this;
  }

  /** Applies what a rule decided and returns its outcome. */
  run<O>({ outcome, changes = [] }: Decision<O>): O {
    this.changes = changes;
    for (const change of changes) this.apply(change);
    return outcome;
  }

  private apply(change: Change): void {
    switch (change.op) {
      case "put":
        this.with(change.table, change.key, change.value);
        return;
      case "drop":
        this.with(change.table, change.key, undefined);
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
        this.log.push(...change.messages);
        break;
      case "trim":
        this.log = this.log.slice(this.log.length - (this.head.last.seq - change.through.seq));
        break;
      case "destroy":
        this.exists = false;
        this.reminder = undefined;
        this.log = [];
        this.rows.clear();
    }
    this.head = headStep(this.head, change);
  }
}
