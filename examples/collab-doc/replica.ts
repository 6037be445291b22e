/**
 * One copy of a shared text: a replicated growable array (RGA), the simplest sequence CRDT. Every letter has a name of its own and
 * stands behind the letter that it was typed after. The page edits one; the server makes the first text with another.
 *
 * Invariants: replicas that have applied the same operations show the same text, in whatever order operations came that do not
 * depend on each other. Applying an operation twice changes nothing. A deleted letter stays as a tombstone, because later letters
 * may stand behind it.
 */

/** The name of a letter. A count is higher than every count that its site had seen. */
export type Id = readonly [count: number, site: string];

/** Letters of one site with consecutive counts. */
export type Run = readonly [count: number, site: string, length: number];

/** The letters of `text` get consecutive names from `id` on; each stands behind the one before it. */
export interface Insert {
  readonly type: "insert";
  readonly id: Id;
  /** Undefined for the beginning of the text. */
  readonly after?: Id | undefined;
  readonly text: string;
}

export interface Delete {
  readonly type: "delete";
  readonly runs: readonly Run[];
}

export type Operation = Insert | Delete;

/** A UTF-16 code unit, as a text field counts. */
export interface Letter {
  readonly id: Id;
  readonly unit: string;
  readonly isDeleted: boolean;
}

interface Node extends Letter {
  isDeleted: boolean;
  next: Node | undefined;
}

export class Replica {
  private readonly head: Node = { id: [0, ""], unit: "", isDeleted: true, next: undefined };
  private readonly nodes = new Map<string, Node>();
  private count = 0;

  constructor(private readonly site: string) {}

  /** All letters in their order, tombstones too. */
  *letters(): Generator<Letter, void, undefined> {
    for (let node = this.head.next; node !== undefined; node = node.next) yield node;
  }

  get text(): string {
    let text = "";
    for (const { unit, isDeleted } of this.letters()) if (!isDeleted) text += unit;
    return text;
  }

  /** Types a text behind a letter, or at the beginning, and returns what the other replicas must apply. */
  insert(text: string, after: Id | undefined): Insert {
    const operation: Insert = { type: "insert", id: [this.count + 1, this.site], after, text };
    this.apply(operation);
    return operation;
  }

  delete(ids: readonly Id[]): Delete {
    const operation: Delete = { type: "delete", runs: runsOf(ids) };
    this.apply(operation);
    return operation;
  }

  letter(id: Id): Letter | undefined {
    return this.nodes.get(keyOf(id));
  }

  lettersOf({ id: [first, site], text }: Insert): Letter[] {
    return Array.from({ length: text.length }, (_, i) => this.letter([first + i, site])!);
  }

  /**
   * Returns whether the text has changed. The log brings every letter before the operations that name it; an operation that names
   * an unknown letter has lost its history and is ignored.
   */
  apply(operation: Operation): boolean {
    return operation.type === "insert" ? this.applyInsert(operation) : this.applyDelete(operation);
  }

  private applyInsert({ id: [first, site], after, text }: Insert): boolean {
    let previous = after === undefined ? this.head : this.nodes.get(keyOf(after));
    if (previous === undefined) return false;
    let hasChanged = false;
    for (const [i, unit] of text.split("").entries()) {
      const id: Id = [first + i, site];
      const known = this.nodes.get(keyOf(id));
      hasChanged ||= known === undefined;
      previous = known ?? this.place(id, unit, previous);
    }
    this.count = Math.max(this.count, first + text.length - 1);
    return hasChanged;
  }

  /**
   * Of letters that were typed behind the same one, the higher name comes first. Letters behind those have higher names still, so
   * this steps over whole passages.
   */
  private place(id: Id, unit: string, after: Node): Node {
    let previous = after;
    while (previous.next !== undefined && isHigher(previous.next.id, id)) previous = previous.next;
    const node: Node = { id, unit, isDeleted: false, next: previous.next };
    previous.next = node;
    this.nodes.set(keyOf(id), node);
    return node;
  }

  private applyDelete({ runs }: Delete): boolean {
    let hasChanged = false;
    for (const [first, site, length] of runs) {
      for (let count = first; count < first + length; count++) {
        const node = this.nodes.get(keyOf([count, site]));
        if (node === undefined || node.isDeleted) continue;
        node.isDeleted = true;
        hasChanged = true;
      }
    }
    return hasChanged;
  }
}

function keyOf([count, site]: Id): string {
  return `${count}@${site}`;
}

function isHigher([count, site]: Id, [otherCount, otherSite]: Id): boolean {
  return count === otherCount ? site > otherSite : count > otherCount;
}

function runsOf(ids: readonly Id[]): Run[] {
  const runs: [number, string, number][] = [];
  for (const [count, site] of ids) {
    const last = runs.at(-1);
    if (last !== undefined && last[1] === site && last[0] + last[2] === count) last[2]++;
    else runs.push([count, site, 1]);
  }
  return runs;
}
