/**
 * A document that several tabs edit: a replica, the stream that carries the edits of all, and the edits of this browser that the
 * server has not acknowledged. The page opens one; `open` is the part to read.
 *
 * Invariants: an edit is shown and kept in the browser before it is sent, so it survives a broken network and a reload. Edits come
 * back over the stream and change nothing then.
 */
import type { LiveSession, Sluice, Stream } from "@sluice/client";
import { Unsent } from "../../web/unsent.ts";
import { type Edit, editIn, streamOf } from "../edit.ts";
import { type Id, type Letter, Replica } from "../replica.ts";

export interface DocumentUser {
  /** Other tabs have changed the text. */
  changed(): void;
  /** An edit is in the log, at this offset. */
  stored(edit: Edit, offset: string): void;
  /** The number of edits on their way has changed. */
  sending(): void;
  /** The document is read to its end for the first time, so that it can be edited. */
  opened(): void;
}

export class SharedDocument {
  readonly replica = new Replica(crypto.randomUUID().slice(0, 8));
  private readonly stream: Stream<Edit>;
  private readonly unsent: Unsent<Edit>;
  private edits = 0;
  private sending = 0;
  private isOpen = false;

  constructor(
    sluice: Sluice,
    readonly name: string,
    private readonly by: string,
    private readonly user: DocumentUser,
  ) {
    this.stream = sluice.stream(streamOf(name));
    this.unsent = new Unsent(`unsent:${streamOf(name)}:`);
  }

  /** Edits that this tab sends, and the server has not acknowledged. */
  get sendingCount(): number {
    return this.sending;
  }

  /** Reads the document from its first edit, and follows it. The client sees to it that every edit comes once and in order. */
  async open(tab: LiveSession): Promise<void> {
    await this.stream.create();
    tab.subscribe(
      this.stream.path,
      ({ value, offset }) => {
        const edit = editIn(value);
        if (edit === undefined) return;
        const hasChanged = edit.operations.map((operation) => this.replica.apply(operation)).includes(true);
        this.user.stored(edit, offset);
        if (hasChanged) this.user.changed();
      },
      { from: "beginning", onCatchUp: () => this.opened() },
    );
  }

  /** Replaces letters by a text behind a letter, here at once and everywhere else soon. Returns the new letters. */
  replace(deleted: readonly Id[], text: string, after: Id | undefined): readonly Letter[] {
    const removal = deleted.length > 0 ? [this.replica.delete(deleted)] : [];
    const insertion = text !== "" ? [this.replica.insert(text, after)] : [];
    const edit = { by: this.by, operations: [...removal, ...insertion] };
    const id = `${Date.now()}-${String(this.edits++).padStart(6, "0")}-${crypto.randomUUID()}`;
    this.unsent.put(id, edit);
    this.send(id, edit);
    return insertion.flatMap((operation) => this.replica.lettersOf(operation));
  }

  /** What an earlier page could not send, in its order. Its letters stand behind letters that are in the log. */
  private opened(): void {
    if (this.isOpen) return;
    this.isOpen = true;
    for (const [id, edit] of this.unsent.all()) {
      for (const operation of edit.operations) this.replica.apply(operation);
      this.send(id, edit);
    }
    this.user.changed();
    this.user.opened();
  }

  /** The client repeats the request until the server has acknowledged it. */
  private send(id: string, edit: Edit): void {
    this.sending++;
    this.user.sending();
    this.stream.append(edit).then(
      () => {
        this.unsent.delete(id);
        this.sending--;
        this.user.sending();
      },
      (error: Error) => console.info(`not sent; the next page of this browser tries again: ${error.message}`),
    );
  }
}
