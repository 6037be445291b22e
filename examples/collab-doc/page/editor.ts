/**
 * The text field of the document, and a layer over it with the carets and selections of the others. The page makes one.
 *
 * Invariants: each letter of the field is known by its id, so an edit is about letters and not about places that move. While an
 * input method composes, the field is left alone.
 */
import type { Person } from "../../web/person.ts";
import type { Id, Letter, Replica } from "../replica.ts";
import { changeOf } from "./change.ts";

/** A caret stands behind a letter, or at the beginning of the text. */
export interface Selection {
  readonly from?: Id | undefined;
  readonly to?: Id | undefined;
}

export interface Other extends Person, Selection {}

interface Mark {
  readonly at: number;
  readonly kind: "start" | "end" | "caret";
  readonly other: Other;
}

export interface EditorUser {
  /** Returns the new letters. */
  edited(deleted: readonly Id[], text: string, after: Id | undefined): readonly Letter[];
  selected(): void;
}

export class Editor {
  /** The letters of the field. */
  private shown: Letter[] = [];
  private others: readonly Other[] = [];
  private isComposing = false;

  constructor(
    private readonly field: HTMLTextAreaElement,
    private readonly layer: HTMLElement,
    private readonly replica: Replica,
    private readonly user: EditorUser,
  ) {
    field.addEventListener("input", () => this.edited());
    field.addEventListener("compositionstart", () => {
      this.isComposing = true;
    });
    field.addEventListener("compositionend", () => {
      this.isComposing = false;
      this.show();
    });
    document.addEventListener("selectionchange", () => document.activeElement === field && user.selected());
    field.addEventListener("blur", () => user.selected());
  }

  get selection(): Selection | undefined {
    if (document.activeElement !== this.field) return undefined;
    const { selectionStart, selectionEnd } = this.field;
    return { from: this.shown[selectionStart - 1]?.id, to: this.shown[selectionEnd - 1]?.id };
  }

  /** Shows the text of the replica. The caret stays behind its letter. */
  show(): void {
    if (this.isComposing) return;
    const { selectionStart, selectionEnd, selectionDirection } = this.field;
    const [from, to] = [this.shown[selectionStart - 1], this.shown[selectionEnd - 1]];
    this.shown = [...this.replica.letters()].filter(({ isDeleted }) => !isDeleted);
    const text = this.text;
    if (this.field.value !== text) {
      this.field.value = text;
      this.field.setSelectionRange(this.placeBehind(from?.id), this.placeBehind(to?.id), selectionDirection);
    }
    this.draw();
  }

  showOthers(others: readonly Other[]): void {
    this.others = others;
    this.draw();
  }

  private get text(): string {
    return this.shown.map(({ unit }) => unit).join("");
  }

  private edited(): void {
    const { from, to, text } = changeOf(this.text, this.field.value, this.field.selectionEnd);
    if (from === to && text === "") return;
    const deleted = this.shown.slice(from, to).map(({ id }) => id);
    const added = this.user.edited(deleted, text, this.shown[from - 1]?.id);
    // The replica may hold edits of others that an input method keeps from being shown.
    this.shown = [...this.shown.slice(0, from), ...added, ...this.shown.slice(to)];
    this.show();
    this.user.selected();
  }

  /** How many letters are shown up to this one, which may be deleted by now. */
  private placeBehind(id: Id | undefined): number {
    if (id === undefined) return 0;
    const letter = this.replica.letter(id);
    let place = 0;
    for (const other of this.replica.letters()) {
      if (!other.isDeleted) place++;
      if (other === letter) return place;
    }
    return place;
  }

  private draw(): void {
    const text = this.text;
    const marks = this.others.flatMap((other): Mark[] => {
      const [from, to] = [this.placeBehind(other.from), this.placeBehind(other.to)];
      const caret: Mark = { at: to, kind: "caret", other };
      return from === to ? [caret] : [{ at: from, kind: "start", other }, { at: to, kind: "end", other }, caret];
    });
    marks.sort((a, b) => a.at - b.at);
    const pieces: Node[] = [];
    const selecting = new Set<Other>();
    let at = 0;
    for (const mark of marks) {
      pieces.push(passage(text.slice(at, mark.at), selecting));
      at = mark.at;
      if (mark.kind === "start") selecting.add(mark.other);
      else if (mark.kind === "end") selecting.delete(mark.other);
      else pieces.push(caretOf(mark.other));
    }
    // A last line that is empty has a height only if something follows it.
    pieces.push(document.createTextNode(`${text.slice(at)}\u200b`));
    this.layer.replaceChildren(...pieces);
  }
}

function passage(text: string, selecting: ReadonlySet<Other>): Node {
  const [other] = selecting;
  if (other === undefined) return document.createTextNode(text);
  const selected = Object.assign(document.createElement("mark"), { textContent: text });
  selected.dataset.tone = String(other.tone);
  return selected;
}

function caretOf({ name, tone }: Person): HTMLElement {
  const caret = Object.assign(document.createElement("span"), { className: "caret" });
  caret.dataset.tone = String(tone);
  caret.append(Object.assign(document.createElement("b"), { textContent: name }));
  return caret;
}
