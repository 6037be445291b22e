/**
 * Groups as every door uses them: declare, consume, seek, redrive, delete, list, look at. It checks what callers ask for and submits
 * rules to the group's keeper; leaders and agents do the rest.
 *
 * Invariants: a caller consumes only streams that it may see: the filter lies within its token's. A group that is consumed
 * exists, because subscribing declares it.
 */
import type { Position } from "@sluice/protocol";
import type { Access, Permission } from "../core/action.ts";
import { hex } from "../core/bytes.ts";
import { Refusal } from "../core/refusal.ts";
import { refuseReserved } from "../core/reserved.ts";
import { matchesFilter } from "../core/topic.ts";
import { levelsOfFilter } from "../core/topic-index.ts";
import type { World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import { rowsOf } from "../engine/table-rows.ts";
import type { Streams } from "../streams/service.ts";
import type { Agent } from "./agent.ts";
import { Consumer, type ConsumerEvents, type Subscribe } from "./consumer.ts";
import type { DeclaredHolds } from "./declared-holds.ts";
import type { GroupLimits } from "./defaults.ts";
import { type AskedStart, type DeclareOutcome, declareRule, deleteRule, seekRule } from "./group-rules.ts";
import { holderOf } from "./holds.ts";
import { type After, type GroupInfo, infoOf, storedView } from "./info.ts";
import type { Inquiries } from "./inquiries.ts";
import { MAX_VIEWED } from "./leader-view.ts";
import { QueueConsumer, type QueueEvents } from "./queue-consumer.ts";
import { type Redriven, redrive } from "./redrive.ts";
import { GROUP, type GroupConfig, type GroupMeta, groupEntity, META, metaTable, streamTable } from "./state.ts";
import { filterOf, type GroupName, groupId, groupOfId, type Mode } from "./topic.ts";

export const CONSUME: Permission = { action: "group.consume", need: "read-or-write" };

export interface GroupsParts {
  readonly engine: Engine;
  readonly keepers: Keepers;
  readonly world: World;
  readonly streams: Streams;
  readonly agent: Agent;
  readonly limits: GroupLimits;
  readonly holds: DeclaredHolds;
  /** Asks the node that leads a group what its leader knows. */
  readonly inquiries: Pick<Inquiries, "ask">;
}

export interface Consume {
  readonly name: GroupName;
  readonly member: string;
  /** Counts only if the group does not exist yet; the default is latest. */
  readonly start?: AskedStart | undefined;
  readonly credit?: number | undefined;
}

/** Groups of one name that are looked at. */
const MAX_NAMESAKES = 100;

function seesGroup(name: GroupName, access: Access): boolean {
  return access.seesAll({ text: name.filter, levels: levelsOfFilter(filterOf(name)) });
}

const NAME_BYTES = 8;
const LATEST: AskedStart = { kind: "latest" };

export class Groups {
  constructor(private readonly parts: GroupsParts) {}

  /** Throws a Refusal if the caller may not consume the streams of the group. */
  async consume(project: string, asked: Consume, access: Access, events: ConsumerEvents): Promise<Consumer> {
    const { world, streams, agent, limits } = this.parts;
    const { readBytes: pageBytes, retryMs } = limits;
    const wanted = await this.subscribe(project, asked, access);
    return new Consumer({ world, streams, agent, pageBytes, retryMs }, wanted, events);
  }

  /** The same for a queue. */
  async work(project: string, asked: Consume, access: Access, events: QueueEvents): Promise<QueueConsumer> {
    const { world, streams, agent, limits } = this.parts;
    const wanted = await this.subscribe(project, asked, access);
    return new QueueConsumer({ world, streams, agent, pageBytes: limits.readBytes }, wanted, events);
  }

  private async subscribe(project: string, asked: Consume, access: Access): Promise<Subscribe> {
    const { name, member, start, credit } = asked;
    const { limits } = this.parts;
    await access.demand({ ...CONSUME, project, group: name.group });
    this.demandFilter(name, access);
    await this.declare(project, name, start ?? LATEST);
    const group = groupEntity(project, name);
    return { group, member, credit: Math.min(credit ?? limits.credit, limits.maxCredit) };
  }

  /** Throws a Refusal unless the caller sees every stream, present and future, that the group consumes. */
  demandFilter(name: GroupName, access: Access): void {
    if (seesGroup(name, access)) return;
    throw new Refusal("forbidden", `the token is confined to other streams than ${JSON.stringify(name.filter)}`);
  }

  /** Throws a Refusal unless the group may put messages aside there. */
  demandDeadLetter(name: GroupName, path: string, access: Access): void {
    refuseReserved(path);
    if (!access.sees(path))
      throw new Refusal("forbidden", "the token is confined to other streams than the deadLetter");
    if (matchesFilter(filterOf(name), path))
      throw new Refusal("bad-body", "the filter must not match the deadLetter, because dead letters would come again");
  }

  /** One page of the project's groups that the caller may see. */
  async list(project: string, after: string, limit: number, access: Access) {
    const { ids, next } = await this.parts.engine.list(project, GROUP, "", after, limit);
    return { groups: ids.map(groupOfId).filter((name) => seesGroup(name, access)), next };
  }

  /** The group of this name. Throws a Refusal if there is none that the caller may see, or several. */
  async find(project: string, group: string, which: Partial<GroupName>, access: Access): Promise<GroupName> {
    const { mode, filter } = which;
    const modes: readonly Mode[] = mode === undefined ? ["share", "queue"] : [mode];
    const all: GroupName[] = [];
    for (const one of modes) {
      const { ids } = await this.parts.engine.list(
        project,
        GROUP,
        `${one}/${group}/${filter ?? ""}`,
        "",
        MAX_NAMESAKES,
      );
      all.push(...ids.map(groupOfId).filter((name) => filter === undefined || name.filter === filter));
    }
    if (all.length === 0) throw new Refusal("group-not-found", `there is no group ${JSON.stringify(group)}`);
    const seen = all.filter((name) => seesGroup(name, access));
    if (seen.length === 0) this.demandFilter(all[0]!, access);
    if (seen.length === 1) return seen[0]!;
    throw new Refusal("group-ambiguous", "several groups have this name; send filter and mode", {
      groups: seen.map(groupId),
    });
  }

  /** The same from every node, as long as the node that leads the group answers. */
  async info(project: string, name: GroupName): Promise<GroupInfo> {
    const { engine, inquiries, limits } = this.parts;
    const group = groupEntity(project, name);
    const { rows } = await engine.load(group, [META]);
    const meta = rows[0] && metaTable.decode(rows[0]);
    const told = meta?.leader && (await inquiries.ask(meta.leader, group.key));
    const view = told || storedView(await this.positions(project, name, meta), MAX_VIEWED);
    const after = (path: string, position: Position) => this.after(project, path, position);
    return infoOf(name, view, { after, now: engine.now(), batch: limits.batch });
  }

  /** How far the group has come in each stream: as it is stored, or else where it would begin. */
  private async positions(project: string, name: GroupName, meta: GroupMeta | undefined) {
    const starts = meta && (await this.parts.holds.starts(project, name, meta, MAX_VIEWED + 1));
    return new Map([...(starts ?? []), ...(await this.progress(project, name))]);
  }

  /** What a stream holds after a position; undefined if there is no such stream. */
  async after(project: string, path: string, position: Position): Promise<After | undefined> {
    const { streams } = this.parts;
    for (let at = position; ; ) {
      const page = await streams.peek(project, path, at, 1);
      if (page.kind === "page") return { tail: page.head.last, oldestMs: page.messages[0]?.at };
      // A position beyond the end: the stream lost its end, or was created anew. Nothing follows it.
      if (page.kind === "ahead") return { tail: position };
      if (page.kind !== "trimmed" && page.kind !== "lost") return undefined;
      at = page.kind === "trimmed" ? page.earliest : page.survived;
    }
  }

  /**
   * Creates the group unless it exists, and holds from then on what retention would take before its first consumer. A repetition
   * completes what a crash left undone.
   */
  async put(project: string, name: GroupName, start: AskedStart, config: GroupConfig): Promise<DeclareOutcome> {
    const declared = await this.declare(project, name, start, config);
    if (declared.kind !== "differs" && declared.meta.term === 0)
      await this.parts.holds.place(project, name, declared.meta);
    return declared;
  }

  /** Creates the group unless it exists. Without a configuration an existing group stays as it is. */
  declare(project: string, name: GroupName, start: AskedStart, config?: GroupConfig): Promise<DeclareOutcome> {
    return this.parts.keepers.submit(groupEntity(project, name), [META], (view, now) =>
      declareRule(view, now, { start, config }),
    );
  }

  /** Fences what is in flight: the leader learns of it at its next commit, which is refused, or when it is asked. */
  seek(project: string, name: GroupName, to: AskedStart): Promise<"sought" | "absent"> {
    return this.parts.keepers.submit(groupEntity(project, name), [META], (view, now) => seekRule(view, now, to));
  }

  /** Releases the group's holds first, because nothing knows of them afterwards. */
  async delete(project: string, name: GroupName): Promise<"deleted" | "absent"> {
    const { keepers, engine, streams, limits, holds } = this.parts;
    const group = groupEntity(project, name);
    for await (const { key } of rowsOf(engine, group, streamTable, limits.pageRows)) {
      await streams.hold(project, key, holderOf(group), undefined);
    }
    await holds.release(project, name);
    return keepers.submit(group, [META], deleteRule);
  }

  /** Puts dead letters back into their streams. Throws a Refusal if the group has no dead-letter stream that the caller may see. */
  async redrive(project: string, name: GroupName, access: Access): Promise<Redriven> {
    const { engine, keepers, streams, world, limits } = this.parts;
    const group = groupEntity(project, name);
    const { rows } = await engine.load(group, [META]);
    const deadLetter = rows[0] && metaTable.decode(rows[0]).config.deadLetter;
    if (deadLetter === undefined)
      throw new Refusal("bad-request", "the group has no deadLetter, so there is nothing to redrive");
    if (!access.sees(deadLetter))
      throw new Refusal("forbidden", "the token is confined to other streams than the deadLetter");
    const newName = () => hex(world.randomBytes(NAME_BYTES));
    return redrive({ keepers, streams, readBytes: limits.readBytes, newName }, group, deadLetter);
  }

  /** How far the group has processed each stream that it has a row of, as it is stored. */
  async progress(project: string, name: GroupName): Promise<Map<string, Position>> {
    const { engine, limits } = this.parts;
    const group = groupEntity(project, name);
    const { rows } = await engine.load(group, [META]);
    const meta = rows[0] && metaTable.decode(rows[0]);
    const found = new Map<string, Position>();
    if (meta === undefined) return found;
    for await (const { key, value } of rowsOf(engine, group, streamTable, limits.pageRows)) {
      if (value.edition === meta.edition) found.set(key, value.at);
    }
    return found;
  }
}
