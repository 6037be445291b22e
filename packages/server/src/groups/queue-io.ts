/**
 * What a leader of a queue reads and writes outside of its entity: the logs of its streams, whose messages it leases, and the
 * dead-letter stream. The leader process owns one and passes effects of the rules on to it.
 *
 * Invariants: one read of a stream is in flight. A stream is watched while the group has members, so that an idle leader costs
 * nothing. A message reaches the dead-letter stream at least once, with its reason, before it counts as acknowledged.
 */
import { formatOffset, type Position } from "@sluice/protocol";
import { backoffMs } from "../core/backoff.ts";
import type { World } from "../core/world.ts";
import type { Entity } from "../engine/contract.ts";
import type { Streams } from "../streams/service.ts";
import type { LeaderEffect, LeaderEvent } from "./leader-state.ts";
import { DEAD } from "./redrive.ts";

export interface QueueIoParts {
  readonly world: Pick<World, "after">;
  readonly streams: Streams;
  readonly readBytes: number;
  readonly retryMs: number;
  readonly report: (what: string, fault: unknown) => void;
}

/** A dead-letter stream may refuse a letter for good, for instance because of its content type. */
const MAX_BURY_RETRY_MS = 60_000;

type Bury = Extract<LeaderEffect, { kind: "bury" }>;

export class QueueIo {
  private readonly watches = new Map<string, () => void>();
  /** Streams with a commit since their last read began. */
  private readonly woken = new Set<string>();
  /** Why a dead letter was refused last. */
  private refusal: string | undefined;
  private isStopped = false;

  constructor(
    private readonly parts: QueueIoParts,
    private readonly group: Entity,
    private readonly deadLetter: string | undefined,
    private readonly step: (event: LeaderEvent) => void,
  ) {}

  read(path: string, after: Position): void {
    this.watch(path);
    this.readFrom(path, after).catch((fault) => {
      if (this.isStopped) return;
      this.parts.report(`reading ${path} for ${this.group.key} failed; it is repeated`, fault);
      this.parts.world.after(this.parts.retryMs, () => this.readAgain(path, after));
    });
  }

  private readAgain(path: string, after: Position): void {
    if (this.isStopped) return;
    if (this.watches.has(path)) this.read(path, after);
    // The members have left meanwhile, and the next one asks for the stream again.
    else this.step({ type: "read", path, positions: [], isDry: false });
  }

  /** No member is left. */
  rest(): void {
    for (const unwatch of this.watches.values()) unwatch();
    this.watches.clear();
  }

  stop(): void {
    this.isStopped = true;
    this.rest();
  }

  private watch(path: string): void {
    if (this.watches.has(path) || this.isStopped) return;
    const wake = () => {
      this.woken.add(path);
      this.step({ type: "woken", path });
    };
    this.watches.set(path, this.parts.streams.watch(this.group.project, path, wake));
  }

  private async readFrom(path: string, after: Position): Promise<void> {
    const { streams, readBytes } = this.parts;
    this.woken.delete(path);
    const page = await streams.peek(this.group.project, path, after, readBytes);
    if (this.isStopped) return;
    switch (page.kind) {
      case "page": {
        const positions = page.messages.map(({ position }) => position);
        this.step({ type: "read", path, positions, isDry: page.atTail && this.willWake(path) });
        const isOver = page.atTail && page.meta.closed;
        if (isOver) this.step({ type: "found", streams: [{ path, from: page.next, end: page.next }] });
        return;
      }
      case "trimmed":
        return this.step({ type: "trimmed", path, through: page.earliest });
      case "lost":
        return this.readFrom(path, page.survived);
      case "ahead":
        return this.step({ type: "read", path, positions: [], isDry: this.willWake(path) });
      default:
        this.watches.get(path)?.();
        this.watches.delete(path);
        this.step({ type: "lost", paths: [path] });
    }
  }

  /** Whether a watch tells of every commit since the last read began. The members may have left meanwhile. */
  private willWake(path: string): boolean {
    return this.watches.has(path) && !this.woken.has(path);
  }

  /** A letter that is refused holds up no other message, but its own counts as unprocessed meanwhile, so retention keeps it. */
  bury(dead: Bury, failures = 0): void {
    const { world, retryMs } = this.parts;
    const { path, position } = dead;
    this.append(dead).then(
      () => this.step({ type: "buried", path, position }),
      (fault) => {
        if (this.isStopped) return;
        this.tellRefused(path, fault);
        const delayMs = backoffMs(failures + 1, { firstMs: retryMs, maxMs: MAX_BURY_RETRY_MS });
        world.after(delayMs, () => this.isStopped || this.bury(dead, failures + 1));
      },
    );
  }

  /** Any number of letters may be refused for one reason, any number of times. It is told once. */
  private tellRefused(path: string, fault: unknown): void {
    if (String(fault) === this.refusal) return;
    this.refusal = String(fault);
    const what = `the dead letter of ${path} for ${this.group.key} was not stored in ${this.deadLetter}`;
    this.parts.report(`${what}; it is repeated at least once a minute, and others like it are not logged`, fault);
  }

  private async append({ path, position, attempts, why }: Bury): Promise<void> {
    const { streams, readBytes } = this.parts;
    const { project } = this.group;
    if (this.deadLetter === undefined) return;
    const before = { generation: position.generation, seq: position.seq - 1 };
    const page = await streams.peek(project, path, before, readBytes);
    const message = page.kind === "page" ? page.messages[0] : undefined;
    // Retention has taken it meanwhile.
    if (page.kind !== "page" || message === undefined || message.position.seq !== position.seq) return;
    const { contentType } = page.meta.config;
    await streams.create(project, this.deadLetter, { config: { contentType }, closed: false });
    const offset = formatOffset(position);
    const outcome = await streams.append(project, this.deadLetter, {
      payloads: [message.payload],
      contentType,
      close: false,
      // A message may die in several groups, and repeats of one letter must be told from that.
      messageId: `${this.group.id}/${path}@${offset}`,
      messageKey: message.key,
      attributes: {
        ...message.attributes,
        [DEAD.group]: this.group.id,
        [DEAD.stream]: path,
        [DEAD.offset]: offset,
        [DEAD.reason]: why,
        [DEAD.attempts]: `${attempts}`,
      },
    });
    if (outcome.kind !== "appended" && outcome.kind !== "duplicate") {
      throw new Error(`the dead-letter stream ${this.deadLetter} refuses messages: ${outcome.kind}`);
    }
  }
}
