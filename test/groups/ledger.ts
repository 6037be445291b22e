/**
 * What the members of a group were given, what they processed, and what was confirmed to them. The worlds of the group tests
 * write it as things happen.
 *
 * Invariants that it checks: no epoch of a stream has two borrowers; within an epoch messages come in order and without a hole;
 * no message is delivered after its acknowledgement was confirmed; in the end every message was processed, and that is stored.
 */
export class Ledger {
  readonly violations: string[] = [];
  readonly story: string[] = [];
  private readonly lengths = new Map<string, number>();
  private readonly owners = new Map<string, string>();
  private readonly lastOf = new Map<string, number>();
  private readonly floors = new Map<string, number>();
  private readonly settledOnes = new Set<string>();
  private readonly seen = new Map<string, Set<number>>();
  /** Deliveries beyond the first of each message. */
  duplicates = 0;
  deliveries = 0;
  moves = 0;

  constructor(private readonly now: () => number) {}

  published(stream: string, length: number): void {
    this.lengths.set(stream, length);
  }

  deleted(stream: string): void {
    for (const map of [this.lengths, this.floors, this.seen]) map.delete(stream);
    this.note(`${stream} is deleted`);
  }

  granted(stream: string, epoch: number, borrower: string): void {
    this.moves++;
    const key = `${stream} ${epoch}`;
    const owner = this.owners.get(key);
    this.note(`${stream} is granted to ${borrower} in epoch ${epoch}`);
    if (owner !== undefined) this.object(`${key} was granted to ${owner} and to ${borrower}`);
    this.owners.set(key, borrower);
  }

  delivered(stream: string, seq: number, epoch: number): void {
    const key = `${stream} ${epoch}`;
    const last = this.lastOf.get(key);
    this.note(`${stream} ${seq} is delivered in epoch ${epoch}`);
    if (last !== undefined && seq !== last + 1) this.object(`${key} delivered ${seq} after ${last}`);
    this.lastOf.set(key, seq);
    const floor = this.floors.get(stream) ?? 0;
    if (seq <= floor) this.object(`${stream} ${seq} was delivered although ${floor} was confirmed`);
    this.deliveries++;
    if (last === undefined) this.checkStart(stream, seq);
  }

  /** A grant never skips messages that no client has processed. */
  private checkStart(stream: string, seq: number): void {
    const before = seq - 1;
    if (before === 0 || this.seen.get(stream)?.has(before)) return;
    this.object(`${stream} began at ${seq} although ${before} was not processed`);
  }

  processed(stream: string, seq: number): void {
    const seen = this.seen.get(stream) ?? new Set();
    this.seen.set(stream, seen);
    if (seen.has(seq)) this.duplicates++;
    seen.add(seq);
  }

  confirmed(stream: string, seq: number): void {
    this.note(`${stream} ${seq} is confirmed`);
    this.floors.set(stream, Math.max(seq, this.floors.get(stream) ?? 0));
  }

  /** Everything that was published is processed, and the store knows it. */
  audit(storedOf: (stream: string) => number): void {
    for (const [stream, length] of this.lengths) {
      const count = this.seen.get(stream)?.size ?? 0;
      if (count < length) this.object(`${length - count} messages of ${stream} were never processed`);
      if (storedOf(stream) < length) this.object(`${stream} is stored up to ${storedOf(stream)} of ${length}`);
    }
  }

  /** A message of a queue is delivered. */
  leased(stream: string, seq: number, lease: number): void {
    this.note(`${stream} ${seq} is delivered under lease ${lease}`);
    this.deliveries++;
    const key = `${stream} lease ${lease}`;
    if (this.owners.has(key)) this.object(`${key} was delivered twice`);
    this.owners.set(key, `${seq}`);
    if (this.settledOnes.has(`${stream} ${seq}`)) this.object(`${stream} ${seq} was delivered after it was confirmed`);
  }

  settled(stream: string, seq: number): void {
    this.note(`${stream} ${seq} is confirmed`);
    this.settledOnes.add(`${stream} ${seq}`);
  }

  note(line: string): void {
    this.story.push(`+${this.now()} ${line}`);
  }

  object(what: string): void {
    this.violations.push(what);
    this.note(`VIOLATION ${what}`);
  }
}
