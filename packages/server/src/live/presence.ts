/**
 * Presence: shows the tabs of this node that asked for it, and tells them which members come, go and change. The tabs enter and
 * exit; the route lists members; the sweeper removes the members of dead nodes from streams that no tab looks at.
 *
 * Members are rows that name their node. Every reader leaves out those of nodes that are not alive, and a node whose tabs look at
 * the stream removes them. So presence is right within seconds of a node's death.
 *
 * Invariants: off unless asked for: a tab without presence costs nothing here. A stream has one watch per node while a tab of the
 * node wants its events. A member that could not be stored, or that another node took for dead, is stored again. Members per
 * stream are bounded.
 */
import type { Cancel, World } from "../core/world.ts";
import { type Engine, EngineError, type Entity, type Unwatch } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import { rowsOf } from "../engine/table-rows.ts";
import {
  COUNT_ROW,
  hideRule,
  type Member,
  memberTable,
  type PresenceLimits,
  presenceEntity,
  showRule,
  sweptRule,
} from "./presence-rules.ts";

/** A tab as presence knows it. */
export interface Present {
  readonly project: string;
  readonly sessionId: string;
  readonly nonce: string;
  readonly number: number;
  /** The owner of the session. */
  readonly subject: string | undefined;
  send(event: object): void;
}

/** A member as clients see it. */
export interface ShownMember {
  readonly sessionId: string;
  readonly subject?: string | undefined;
  readonly since: number;
  readonly state?: unknown;
}

export interface PresenceParts {
  readonly engine: Engine;
  readonly keepers: Keepers;
  readonly world: World;
  readonly limits: PresenceLimits & { readonly pageRows: number; readonly checkMs: number };
  readonly report: (what: string, fault: unknown) => void;
}

/** What one tab wants on one stream. */
interface Wish {
  readonly tab: Present;
  readonly state: unknown;
  /** False: the tab has left, and its member is to be removed. */
  readonly isShown: boolean;
  isStored: boolean;
}

/** The rows of a stream: members of nodes that are alive, and what dead nodes have left behind. */
interface Reading {
  readonly members: Map<string, ShownMember>;
  readonly dead: { readonly session: string; readonly nonce: string }[];
}

/** The tabs of this node on one stream, and the members that they were told of. */
interface Room {
  readonly project: string;
  readonly stream: string;
  readonly wishes: Map<string, Wish>;
  /** Tabs that get events. */
  readonly tabs: Map<string, Present>;
  known: ReadonlyMap<string, ShownMember> | undefined;
  /** Tabs that were not told of the present members yet. */
  readonly fresh: Set<Present>;
  unwatch: Unwatch;
  isLooking: boolean;
  looksAgain: boolean;
}

export class Presence {
  private readonly rooms = new Map<string, Room>();
  private timer: Cancel | undefined;
  private isStopped = false;

  constructor(private readonly parts: PresenceParts) {}

  /** Streams with a tab of this node that wants presence. */
  get size(): number {
    return this.rooms.size;
  }

  /** Shows the tab, or its new state, and tells it of the members from now on. */
  enter(tab: Present, stream: string, state: unknown): void {
    if (this.isStopped) return;
    const room = this.roomOf(tab.project, stream);
    const before = room.tabs.get(tab.sessionId);
    room.wishes.set(tab.sessionId, { tab, state, isShown: true, isStored: false });
    if (before !== tab) {
      room.tabs.set(tab.sessionId, tab);
      room.fresh.add(tab);
      this.look(room);
    }
    void this.store(room, tab.sessionId);
  }

  /** Readers leave out the members of a node that has stopped, so what could not be stored is not waited for. */
  stop(): void {
    this.isStopped = true;
    this.timer?.();
    for (const room of this.rooms.values()) room.unwatch();
    this.rooms.clear();
  }

  exit(tab: Present, stream: string): void {
    const room = this.rooms.get(presenceEntity(tab.project, stream).key);
    const wish = room?.wishes.get(tab.sessionId);
    if (room === undefined || wish?.tab !== tab || !wish.isShown) return;
    room.wishes.set(tab.sessionId, { ...wish, isShown: false, isStored: false });
    room.tabs.delete(tab.sessionId);
    room.fresh.delete(tab);
    void this.store(room, tab.sessionId);
  }

  /** The members whose node is alive, in the order of their sessions. */
  async members(project: string, stream: string): Promise<readonly ShownMember[]> {
    return [...(await this.read(presenceEntity(project, stream))).members.values()];
  }

  private async read(e: Entity): Promise<Reading> {
    const { engine, limits } = this.parts;
    const rows: { readonly key: string; readonly value: Member }[] = [];
    for await (const row of rowsOf(engine, e, memberTable, limits.pageRows)) rows.push(row);
    // Read after the members, because a node writes its record before it shows a member.
    const alive = new Set((await engine.nodes()).map(({ id }) => id));
    // A node whose record has ended, because the store did not answer for a while, still knows that it is alive.
    alive.add(engine.node);
    const reading: Reading = { members: new Map(), dead: [] };
    for (const { key, value } of rows) {
      if (alive.has(value.node)) reading.members.set(key, shown(key, value));
      else reading.dead.push({ session: key, nonce: value.nonce });
    }
    return reading;
  }

  /** Removes the members that dead nodes have left behind. Nodes may do so at the same time. */
  private async bury(e: Entity, dead: Reading["dead"]): Promise<void> {
    if (dead.length === 0) return;
    const keys = [COUNT_ROW, ...dead.map(({ session }) => memberTable.at(session))];
    await this.parts.keepers.submit(e, keys, (view) => hideRule(view, dead));
  }

  private roomOf(project: string, stream: string): Room {
    const e = presenceEntity(project, stream);
    const known = this.rooms.get(e.key);
    if (known !== undefined) return known;
    const room: Room = {
      project,
      stream,
      wishes: new Map(),
      tabs: new Map(),
      known: undefined,
      fresh: new Set(),
      unwatch: this.parts.engine.watch(e, () => this.look(room)),
      isLooking: false,
      looksAgain: false,
    };
    this.rooms.set(e.key, room);
    this.timer ??= this.parts.world.after(this.parts.limits.checkMs, this.check);
    return room;
  }

  /** Nodes die without a commit, and a store may have refused one. */
  private readonly check = (): void => {
    const { world, limits } = this.parts;
    for (const room of this.rooms.values()) {
      this.look(room);
      for (const [session, { isStored }] of room.wishes) if (!isStored) void this.store(room, session);
    }
    this.timer = this.rooms.size === 0 ? undefined : world.after(limits.checkMs, this.check);
  };

  /** Stores what the session's tab wants now. Repeated by `check` until it succeeds. */
  private async store(room: Room, session: string): Promise<void> {
    const wish = room.wishes.get(session);
    if (wish === undefined) return;
    try {
      await this.commit(room, session, wish);
      wish.isStored = true;
    } catch (fault) {
      this.failed(`storing presence on ${room.stream} failed; it is tried again`, fault);
      return;
    }
    if (!wish.isShown && room.wishes.get(session) === wish) room.wishes.delete(session);
    this.leaveIfEmpty(room);
  }

  private async commit(room: Room, session: string, { tab, state, isShown }: Wish): Promise<void> {
    const { engine, keepers, limits } = this.parts;
    const e = presenceEntity(room.project, room.stream);
    const keys = [COUNT_ROW, memberTable.at(session)];
    const { nonce, number: connection, subject } = tab;
    if (!isShown) await keepers.submit(e, keys, (view) => hideRule(view, [{ session, nonce }]));
    else {
      const row = { session, node: engine.node, nonce, connection, subject, state };
      await keepers.submit(e, keys, (view, now) => showRule(view, now, row, limits));
    }
  }

  private leaveIfEmpty(room: Room): void {
    if (room.wishes.size > 0) return;
    const { key } = presenceEntity(room.project, room.stream);
    if (this.rooms.get(key) !== room) return;
    this.rooms.delete(key);
    room.unwatch();
    if (this.rooms.size > 0) return;
    this.timer?.();
    this.timer = undefined;
  }

  private look(room: Room): void {
    room.looksAgain = true;
    if (room.isLooking) return;
    room.isLooking = true;
    void this.lookAround(room);
  }

  private async lookAround(room: Room): Promise<void> {
    try {
      while (room.looksAgain && room.tabs.size > 0) {
        room.looksAgain = false;
        const fresh = new Set(room.fresh);
        const e = presenceEntity(room.project, room.stream);
        const { members, dead } = await this.read(e);
        this.tell(room, members, fresh);
        this.missMembers(room, members);
        await this.bury(e, dead);
      }
    } catch (fault) {
      this.failed(`reading who is present on ${room.stream} failed; it is tried again`, fault);
    } finally {
      room.isLooking = false;
    }
  }

  /** Has `check` store the members of this node again that another node has taken for dead and removed. */
  private missMembers(room: Room, members: Reading["members"]): void {
    if (members.size >= this.parts.limits.members) return;
    for (const [session, wish] of room.wishes) if (wish.isShown && !members.has(session)) wish.isStored = false;
  }

  /** A store that does not answer is the operator's news already, and would be told once per stream and second. */
  private failed(what: string, fault: unknown): void {
    if (!(fault instanceof EngineError)) this.parts.report(what, fault);
  }

  /** A tab that is new here is told of all members; the others, of what has changed. */
  private tell(room: Room, members: ReadonlyMap<string, ShownMember>, fresh: ReadonlySet<Present>): void {
    const changes = room.known === undefined ? [] : differences(room.known, members);
    room.known = members;
    const all = [...members.values()].map((member) => ({ event: "join", member }));
    for (const tab of room.tabs.values()) {
      const isFresh = fresh.has(tab);
      if (isFresh) room.fresh.delete(tab);
      for (const change of isFresh ? all : room.fresh.has(tab) ? [] : changes) {
        tab.send({ type: "presence", streamId: room.stream, ...change });
      }
    }
  }

  /** Removes the members of nodes that are not alive. */
  async sweep({ project, id: stream }: Entity): Promise<void> {
    const { keepers, limits } = this.parts;
    const e = presenceEntity(project, stream);
    await this.bury(e, (await this.read(e)).dead);
    await keepers.submit(e, [COUNT_ROW], (view, now) => sweptRule(view, now, limits));
  }
}

function shown(sessionId: string, { subject, since, state }: Member): ShownMember {
  return { sessionId, subject, since, state };
}

type Change = { readonly event: "join" | "leave" | "update"; readonly member: ShownMember };

function differences(before: ReadonlyMap<string, ShownMember>, after: ReadonlyMap<string, ShownMember>): Change[] {
  const changes: Change[] = [];
  for (const [session, member] of before) if (!after.has(session)) changes.push({ event: "leave", member });
  for (const [session, member] of after) {
    const old = before.get(session);
    if (old === undefined) changes.push({ event: "join", member });
    else if (JSON.stringify(old) !== JSON.stringify(member)) changes.push({ event: "update", member });
  }
  return changes;
}
