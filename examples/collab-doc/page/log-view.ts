/** The newest edits of the document in words. Letters that a person types one after the other make one line. */
import type { Edit } from "../edit.ts";
import type { Id, Insert, Operation } from "../replica.ts";

const SHOWN_LINES = 6;
const SHOWN_LETTERS = 26;

export class LogView {
  private by = "";
  private text = "";
  /** The last letter of the newest line, if that line is about typing. */
  private last: Id | undefined;

  constructor(private readonly list: HTMLElement) {}

  add({ by, operations }: Edit): void {
    const [first] = operations;
    const typed = operations.length === 1 && first?.type === "insert" ? first : undefined;
    if (typed !== undefined && this.continues(by, typed)) this.list.firstElementChild!.remove();
    else this.text = "";
    this.by = by;
    this.text += typed?.text ?? "";
    this.last = typed && [typed.id[0] + typed.text.length - 1, typed.id[1]];
    this.write(typed === undefined ? operations.map(wordsFor).join(", ") : wrote(this.text));
  }

  private continues(by: string, { after }: Insert): boolean {
    return by === this.by && after !== undefined && after[0] === this.last?.[0] && after[1] === this.last[1];
  }

  private write(words: string): void {
    const item = document.createElement("li");
    item.append(Object.assign(document.createElement("b"), { textContent: this.by }), ` ${words}`);
    this.list.prepend(item);
    if (this.list.children.length > SHOWN_LINES) this.list.lastElementChild!.remove();
  }
}

function wordsFor(operation: Operation): string {
  if (operation.type === "insert") return wrote(operation.text);
  const count = operation.runs.reduce((sum, [, , length]) => sum + length, 0);
  return `removed ${count} ${count === 1 ? "letter" : "letters"}`;
}

function wrote(text: string): string {
  const line = text.replace(/\s+/g, " ");
  return `wrote “${line.length > SHOWN_LETTERS ? `…${line.slice(-SHOWN_LETTERS)}` : line}”`;
}
