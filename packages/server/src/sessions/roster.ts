/**
 * A stream's registry as this process remembers it: its subscribers and laggards. A source asks it which sessions get a
 * copy and reports outcomes. Subscribing and unsubscribing go through it too.
 *
 * Invariants: the roster equals the registry at its version. Where other nodes write, it is compared with the store
 * before every use. A change that does not directly follow its version makes it read all rows again.
 */
import type { Position } from "@sluice/protocol";
import { nextTurn, type World } from "../core/world.ts";
import type { Engine, Head, Message, RowKey } from "../engine/contract.ts";
import type { Keepers, Rule } from "../engine/keeper.ts";
import { isMemoryTruth } from "../engine/other-nodes.ts";
import type { FanoutLimits } from "./defaults.ts";
import type { Member } from "./delivery.ts";
import {
  type AddOutcome,
  type AddSubscriber,
  type Advance,
  type AdvanceOutcome,
  addRule,
  advanceRule,
  type CaughtUpOutcome,
  caughtUpRule,
  lendRule,
  type RemoveOutcome,
  type RemoveSubscriber,
  removeRule,
  trimRule,
} from "./registry-rules.ts";
import {
  isVersion,
  laggardTable,
  REGISTRY,
  type Registry,
  registryEntity,
  registryTable,
  subscriberTable,
} from "./state.ts";

interface Rows {
  readonly members: ReadonlyMap<string, Member>;
  readonly lagging: ReadonlyMap<string, Position>;
}

export class Roster {
  /** Undefined while nothing is known, or if there is no registry. */
  registry: Registry | undefined;
  /** All subscribers, laggards included. */
  readonly members = new Map<string, Member>();
  /** The position of each laggard. */
  readonly lagging = new Map<string, Position>();
  private isKnown = false;
  /** Counts changes, to detect that a load that is under way is outdated. */
  private changes = 0;
  private waiting: (() => void)[] = [];
  private readonly entity;

  constructor(
    private readonly engine: Engine,
    private readonly keepers: Keepers,
    private readonly limits: Pick<FanoutLimits, "pageRows" | "roundBytes">,
    private readonly world: Pick<World, "soon">,
    project: string,
    stream: string,
  ) {
    this.entity = registryEntity(project, stream);
  }

  /** Reads the registry again if it may have changed; undefined if there is none. */
  async look(): Promise<Registry | undefined> {
    for (let attempt = 0; ; attempt++) {
      if (this.isKnown && isMemoryTruth(this.engine)) return this.registry;
      const { changes } = this;
      const stored = await this.stored();
      // A change made here while the load was under way is newer.
      if (this.changes !== changes) continue;
      if (stored === undefined) return this.forget();
      if (this.isKnown && isSame(this.registry, stored)) {
        this.registry = stored;
        return stored;
      }
      // A large registry is read in many turns. If a session subscribed or left meanwhile, the next attempt gives way to
      // none, because sessions may come faster than all rows can be read.
      const read = await this.readAll(attempt === 0);
      // A session that subscribed or left while the rows were read may be in them or not; the version tells.
      const after = await this.stored();
      if (this.changes !== changes || after === undefined || !isSame(after, stored)) continue;
      this.remember(after, read);
      return after;
    }
  }

  /** All at once, because a round may ask for the subscribers at any moment, and none may be missing. */
  private remember(registry: Registry, { members, lagging }: Rows): void {
    this.forget();
    for (const [session, member] of members) this.members.set(session, member);
    for (const [session, at] of lagging) this.lagging.set(session, at);
    this.registry = registry;
  }

  private async stored(): Promise<Registry | undefined> {
    const { rows } = await this.engine.load(this.entity, [REGISTRY]);
    return rows[0] && registryTable.decode(rows[0]);
  }

  private async readAll(givesWay: boolean): Promise<Rows> {
    const members = new Map<string, Member>();
    const lagging = new Map<string, Position>();
    for await (const { key, value } of this.rows(subscriberTable.name, givesWay)) {
      const { incarnation, epoch, left } = subscriberTable.decode(value);
      if (!left) members.set(key, { session: key, incarnation, epoch });
    }
    for await (const { key, value } of this.rows(laggardTable.name, givesWay))
      lagging.set(key, laggardTable.decode(value).at);
    return { members, lagging };
  }

  /** Page by page, by default in a turn each. */
  async *rows(table: string, givesWay = true) {
    for (let after = ""; ; ) {
      const page = await this.engine.rows(this.entity, table, after, this.limits.pageRows);
      yield* page;
      const last = page.at(-1);
      if (last === undefined || page.length < this.limits.pageRows) return;
      after = last.key;
      if (givesWay) await nextTurn(this.world);
    }
  }

  private changed(): void {
    this.changes++;
    for (const wake of this.waiting.splice(0)) wake();
  }

  /** Resolves when the roster changes. */
  nextChange(): Promise<void> {
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  private forget(): undefined {
    this.changed();
    this.registry = undefined;
    this.members.clear();
    this.lagging.clear();
    this.isKnown = true;
  }

  /** Applies a change of this process. If another node changed the registry in between, all rows are read again. */
  private follow(registry: Registry, isNext: boolean, change: () => void): void {
    this.changed();
    if (isNext && this.isKnown) {
      this.registry = registry;
      change();
    } else this.isKnown = false;
  }

  /** Whether this registry is exactly `steps` changes of this process ahead of the roster. */
  private isNext({ version, name }: Registry, steps = 1): boolean {
    const known = this.registry;
    if (known === undefined) return version.seq === steps;
    const { generation, seq } = known.version;
    return isVersion({ generation, seq: seq + steps }, version) && known.name === name;
  }

  /** The roster turned out to differ from the store. */
  doubt(): void {
    this.changed();
    this.isKnown = false;
  }

  /** If the commit fails, its outcome is unknown, so the roster is in doubt. */
  private async change<O>(keys: readonly RowKey[], rule: Rule<O>): Promise<O> {
    try {
      return await this.keepers.submit(this.entity, keys, rule);
    } catch (fault) {
      this.doubt();
      throw fault;
    }
  }

  async add(input: AddSubscriber): Promise<AddOutcome> {
    const { session, incarnation, epoch } = input;
    const keys = [REGISTRY, subscriberTable.at(session), laggardTable.at(session)];
    const outcome = await this.change(keys, (view, now) => addRule(view, now, input));
    if (outcome.kind !== "added" || (this.registry && isSame(this.registry, outcome.registry))) return outcome;
    // A version that is one ahead although this changed nothing is another node's change.
    this.follow(outcome.registry, !outcome.isKnown && this.isNext(outcome.registry), () => {
      this.members.set(session, { session, incarnation, epoch });
      if (outcome.lagsAt) this.lagging.set(session, outcome.lagsAt);
      else this.lagging.delete(session);
    });
    return outcome;
  }

  /** With `name`, only from the registry of the stream of that name. */
  async remove(inputs: readonly RemoveSubscriber[], name?: string): Promise<RemoveOutcome> {
    const keys = [
      REGISTRY,
      ...inputs.flatMap(({ session }) => [subscriberTable.at(session), laggardTable.at(session)]),
    ];
    const outcome = await this.change(keys, (view) => removeRule(view, inputs, name));
    if (outcome.kind === "emptied") this.forget();
    else if (outcome.kind === "removed") {
      const { registry, sessions } = outcome;
      this.follow(registry, this.isNext(registry, sessions.length), () => {
        for (const session of sessions) {
          this.members.delete(session);
          this.lagging.delete(session);
        }
      });
    }
    return outcome;
  }

  async advance(input: Advance): Promise<AdvanceOutcome> {
    const keys = [
      REGISTRY,
      ...input.laggards.flatMap(({ session }) => [subscriberTable.at(session), laggardTable.at(session)]),
    ];
    const outcome = await this.change(keys, (view) => advanceRule(view, input));
    if (outcome.kind === "changed") return outcome;
    if (outcome.kind === "gone") {
      this.doubt();
      return outcome;
    }
    const { registry, lagging } = outcome;
    const isSameVersion = isVersion(registry.version, this.registry?.version);
    this.follow(registry, isSameVersion || this.isNext(registry), () => {
      for (const { session, at } of lagging) this.lagging.set(session, at);
    });
    return outcome;
  }

  async caughtUp(member: Member, at: Position): Promise<CaughtUpOutcome> {
    const { session } = member;
    const keys = [REGISTRY, subscriberTable.at(session), laggardTable.at(session)];
    const outcome = await this.change(keys, (view) => caughtUpRule(view, session, member, at));
    if (outcome.kind === "joined") {
      this.follow(outcome.registry, this.isNext(outcome.registry), () => this.lagging.delete(session));
    } else if (outcome.kind === "behind") this.lagging.set(session, at);
    else this.doubt();
    return outcome;
  }

  /** Stores payloads for copies to borrow. Returns the position of the first; undefined if they do not fit. */
  lend(name: string, messages: readonly Message[], maxBytes: number): Promise<Position | undefined> {
    return this.keepers.submit(this.entity, [REGISTRY], (view) => lendRule(view, name, messages, maxBytes));
  }

  /** Trims payloads that were stored before the earliest remaining borrower subscribed. */
  async tidy(): Promise<void> {
    const { head, rows } = await this.engine.load(this.entity, [REGISTRY]);
    if (rows[0] === undefined || head.last.seq === head.start.seq) return;
    const { name } = registryTable.decode(rows[0]);
    let first = head.last.seq + 1;
    for await (const { value } of this.rows(subscriberTable.name)) {
      first = Math.min(first, subscriberTable.decode(value).borrowsFrom);
    }
    const through = await this.measure(head, first - 1);
    if (through) await this.keepers.submit(this.entity, [REGISTRY], (view) => trimRule(view, name, through));
  }

  /** The position of a sequence number in the registry's own log, with the bytes up to it. */
  private async measure(head: Head, seq: number): Promise<{ position: Position; bytes: number } | undefined> {
    let position = head.start;
    let bytes = head.startBytes;
    while (position.seq < seq) {
      const { messages } = await this.engine.read(this.entity, position, this.limits.roundBytes);
      if (messages.length === 0) return undefined;
      for (const message of messages) {
        if (message.position.seq > seq) break;
        position = message.position;
        bytes += message.payload.length;
      }
    }
    return position === head.start ? undefined : { position, bytes };
  }
}

/** Whether no session subscribed, left, lagged or caught up between the two. */
function isSame(a: Registry | undefined, b: Registry): boolean {
  return isVersion(a?.version, b.version) && a?.name === b.name;
}
