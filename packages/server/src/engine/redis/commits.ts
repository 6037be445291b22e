/**
 * Chooses the form in which a commit is sent, and interprets its answer. The engine passes every commit to it.
 *
 * Invariants: a commit keeps its number however often it is sent. After an abandoned commit this node assumes nothing about the
 * entity. The next commit closes the abandoned one, which may still arrive, even if it changes nothing itself.
 */
import type { World } from "../../core/world.ts";
import type { CommitAt, Conflict, Done, Effect, Entity, Fenced } from "../contract.ts";
import type { Calls, Reply } from "./calls.ts";
import { pushEffects } from "./effects.ts";
import type { EntityKeys, Keys } from "./keys.ts";
import { rowName } from "./keys.ts";
import type { RedisMeter } from "./meter.ts";
import type { RedisLimits } from "./options.ts";
import { snapshotOf, stateOf } from "./replies.ts";
import type { Argument } from "./resp.ts";
import { type KnownHead, knownHead, swapOf } from "./swap.ts";

/** Effects that take no memory, and may free some. */
const FREEING: ReadonlySet<Effect["op"]> = new Set(["trim", "drop", "remind", "destroy"]);

/** This node's knowledge of an entity that it commits to. */
interface KnownEntity {
  head: KnownHead | undefined;
  calm: number;
}

export class Commits {
  private number = 0;
  /** Consecutive conflicts per entity. Few entities are in here; if there are too many, all counts restart. */
  private readonly losses = new Map<string, number>();
  /** Entities whose last commit was rejected, so that its outcome is unknown. */
  private readonly open = new Set<string>();
  /** More commits were rejected than this node can remember. */
  private isAnythingOpen = false;
  /** A keeper passes the same object for its entity again and again; the entry goes when the object does. */
  private readonly known = new WeakMap<EntityKeys, KnownEntity>();

  constructor(
    /** The id of this node, by which Redis recognizes a repeated commit. */
    private readonly writer: string,
    private readonly calls: Calls,
    private readonly keys: Keys,
    private readonly limits: Pick<RedisLimits, "remembered" | "calmCommits">,
    private readonly meter: RedisMeter,
    private readonly world: World,
  ) {}

  async commit(e: Entity, at: CommitAt, effects: readonly Effect[]): Promise<Done | Conflict | Fenced> {
    const keys = this.keys.entity(e);
    const known = this.knownEntity(keys);
    const number = ++this.number;
    const startedAt = this.world.monotonicMs();
    try {
      const result =
        (await this.swap(keys, known, at, effects, number)) ?? (await this.send(e, keys, known, at, effects, number));
      this.meter.commitSeconds.add((this.world.monotonicMs() - startedAt) / 1_000);
      return result;
    } catch (fault) {
      known.head = undefined;
      if (this.open.size > this.limits.remembered) {
        this.isAnythingOpen = true;
        this.open.clear();
      }
      this.open.add(e.key);
      throw fault;
    }
  }

  private knownEntity(keys: EntityKeys): KnownEntity {
    const found = this.known.get(keys);
    if (found !== undefined) return found;
    const made: KnownEntity = { head: undefined, calm: this.limits.calmCommits };
    this.known.set(keys, made);
    return made;
  }

  /** Undefined if the commit needs the general form; then nothing has changed. */
  private async swap(
    keys: EntityKeys,
    known: KnownEntity,
    { rev, owner }: CommitAt,
    effects: readonly Effect[],
    number: number,
  ): Promise<Done | undefined> {
    const { head, calm } = known;
    if (head === undefined || head.rev !== rev || owner !== undefined || calm < this.limits.calmCommits)
      return undefined;
    if (effects.length === 0 || isFreeing(effects)) return undefined;
    const swap = swapOf(keys, head, effects, this.writer, number);
    if (swap === undefined) return undefined;
    const [kind] = await this.calls.runText("swap", keys.bucket, swap.keys, swap.args);
    if (kind !== "done") {
      known.calm = 0;
      return undefined;
    }
    known.head = swap.next;
    return { kind: "done", rev: swap.next.rev, head: swap.next.head };
  }

  private async send(
    e: Entity,
    keys: EntityKeys,
    known: KnownEntity,
    at: CommitAt,
    effects: readonly Effect[],
    number: number,
  ): Promise<Done | Conflict | Fenced> {
    known.head = undefined;
    const [touched, args] = this.generalCommit(e, keys, at, effects, number);
    const reply = await this.calls.run(isFreeing(effects) ? "free" : "commit", keys.bucket, touched, args);
    switch (String(reply[0])) {
      case "done":
        return this.done(e, known, reply, number);
      case "fenced":
        return { kind: "fenced" };
      case "conflict":
        if (this.losses.size > this.limits.remembered) this.losses.clear();
        this.losses.set(e.key, (this.losses.get(e.key) ?? 0) + 1);
        known.calm = 0;
        return { kind: "conflict", snapshot: snapshotOf(reply) };
      default:
        throw new Error(`${e.key}: commit ${number} reached Redis after a later commit of this node`);
    }
  }

  private done(e: Entity, known: KnownEntity, reply: Reply, number: number): Done {
    this.losses.delete(e.key);
    this.open.delete(e.key);
    const { rev, head } = stateOf(reply[3]);
    known.calm++;
    if (rev !== 0) known.head = knownHead(rev, head, String(reply[1]), this.writer, number);
    return { kind: "done", rev, head };
  }

  /** Keys and arguments, as lua/commit.lua lists them. */
  private generalCommit(
    e: Entity,
    { bucket, head, log, rows, order, owner, writers, tombstone }: EntityKeys,
    at: CommitAt,
    effects: readonly Effect[],
    number: number,
  ): [string[], Argument[]] {
    const touched = [head, log, rows, order, writers, tombstone, owner];
    const wanted = at.keys ?? [];
    const args: Argument[] = [
      String(at.rev),
      this.writer,
      String(number),
      String(this.losses.get(e.key) ?? 0),
      at.owner === undefined ? "" : `${at.owner.epoch} ${at.owner.nonce}`,
      String(wanted.length),
    ];
    for (const key of wanted) args.push(rowName(key));
    // Most commits touch no index, and need not name its keys.
    if (at.rev === 0 || effects.some(({ op }) => op === "remind" || op === "destroy")) {
      touched.push(this.keys.due(bucket), this.keys.ids(bucket, e.kind, e.project), this.keys.projects(bucket, e.kind));
      args.push(e.key, e.id, e.project);
    }
    pushEffects(args, effects);
    // A rejected commit may still arrive, so a later one that changes nothing must close it.
    if (effects.length === 0 && (this.isAnythingOpen || this.open.has(e.key))) args.push("mark");
    return [touched, args];
  }
}

function isFreeing(effects: readonly Effect[]): boolean {
  return effects.length > 0 && effects.every(({ op }) => FREEING.has(op));
}
