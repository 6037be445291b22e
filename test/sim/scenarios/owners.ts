/**
 * Contenders for the ownership of one entity, under pauses longer than the lease, clocks that disagree, lost replies,
 * conflicts, deaths and restarts. owners.test.ts runs it.
 *
 * Invariants: the epochs of the log never go back, a fenced owner learns it, no owner acts beyond its lease, and a dead
 * owner is replaced within its lease and one retry.
 */
import { ZERO } from "@sluice/protocol";
import { type Engine, entity } from "../../../packages/server/src/engine/contract.ts";
import { FENCED, Keepers } from "../../../packages/server/src/engine/keeper.ts";
import type { Host } from "../host.ts";
import type { Random } from "../random.ts";
import type { Play, Scenario, Stage } from "../scenario.ts";
import type { Process } from "../world.ts";
import { appendRule, Contender, type Pace, unknown } from "./owners/contender.ts";
import { Ledger } from "./owners/ledger.ts";
import { Machine } from "./owners/machine.ts";

const e = entity("p", "group", "g");
const PAGE_BYTES = 1 << 20;
/** Deaths of a whole process; more would leave its contenders no time for faults of their own. */
const MAX_DEATHS = 4;
/** The factor by which a machine's timers may be late, and the time that the calls of a takeover take. */
const SLOWEST = 1.06;
const CALLS_MS = 50;

export const ownersOfOne: readonly Scenario[] = [
  scenario("an entity has one owner at a time, with contenders in one process", 1),
];
export const ownersOfThree: readonly Scenario[] = [
  scenario("an entity has one owner at a time, with contenders on three nodes", 3),
];

function scenario(name: string, nodes: number): Scenario {
  const settings = () => ({ drainMs: 1_000 });
  return { name, nodes, maxBlows: MAX_DEATHS, settings, begin: (stage) => new OwnersPlay(stage) };
}

function drawPace(random: Random): Pace {
  const leaseMs = random.pick([300, 1_000]);
  return {
    limits: { leaseMs, retryMs: random.pick([10, 50]) },
    actMs: random.pick([5, 40, 300]),
    lostReplies: random.pick([0, 0, 0.05, 0.3]),
  };
}

/** The contenders of one process; they die with it. */
interface Crew {
  readonly process: Process;
  readonly around: Omit<ConstructorParameters<typeof Contender>[2], "e">;
  readonly contenders: Contender[];
}

class OwnersPlay implements Play {
  private readonly ledger: Ledger;
  private readonly crews = new Map<Host, Crew>();
  private readonly watched = new WeakSet<Engine>();
  private readonly contendersPerProcess: number;
  private pace: Pace;
  private isOver = false;
  private names = 0;

  constructor(private readonly stage: Stage) {
    const { random, world, hosts } = stage;
    this.ledger = new Ledger(e, () => world.now());
    this.pace = drawPace(random);
    this.contendersPerProcess = hosts.length > 1 ? random.pick([1, 1, 2]) : random.pick([2, 3]);
    for (const host of hosts) host.surroundings = { opened: (engine, process) => this.opened(host, engine, process) };
  }

  /** The engine that grants is recorded once; contenders start when their process is complete. */
  private async opened(host: Host, engine: Engine, process: Process): Promise<void> {
    if (!this.watched.has(engine)) this.ledger.watch(engine);
    this.watched.add(engine);
    process.soon(() => this.board(host, process));
  }

  private board(host: Host, process: Process): void {
    const engine = host.engine!;
    const keepers = new Keepers(engine, (task) => process.soon(task));
    const { ledger } = this;
    const around = { engine, keepers, ledger, random: this.stage.random.branch(), pace: () => this.pace };
    const crew: Crew = { process, around, contenders: [] };
    this.crews.set(host, crew);
    for (let i = 0; i < this.contendersPerProcess; i++) this.join(crew);
    if (!this.isOver) void this.writeWithoutOwner(crew);
  }

  private join({ process, around, contenders }: Crew): void {
    const name = `c${++this.names}`;
    const contender = new Contender(name, new Machine(process, around.random), { ...around, e });
    contender.isActing = !this.isOver;
    contenders.push(contender);
  }

  /** An ordinary writer, whose inputs share commits with those of owners; no fence may affect them. */
  private async writeWithoutOwner({ process, around }: Crew): Promise<void> {
    const { ledger, random, keepers } = around;
    const writer = `w${++this.names}`;
    for (let number = 1; !this.isOver; number++) {
      await new Promise<void>((resolve) => process.after(random.between(0, 60), resolve));
      const input = ledger.submitted(0, writer, number);
      await keepers.submit(e, [], appendRule(input)).then(
        (outcome: unknown) => ledger.told(input, outcome === FENCED ? "fenced" : "done"),
        (fault) => ledger.told(input, unknown(fault)),
      );
    }
  }

  async act(): Promise<void> {
    const { world, random } = this.stage;
    const { leaseMs } = this.pace.limits;
    for (let blows = random.between(5, 25); blows > 0; blows--) {
      await world.sleep(random.between(0, leaseMs));
      const { contenders, owner } = this;
      // Most faults hit the owner; none does when every process is down.
      if (owner !== undefined && random.chance(0.7)) this.strike(owner);
      else if (contenders.length > 0) this.strike(random.pick(contenders));
    }
    // This outlasts the longest pause.
    await world.sleep(3 * leaseMs);
    this.isOver = true;
    this.pace = { ...this.pace, lostReplies: 0 };
    for (const contender of this.contenders) contender.isActing = false;
  }

  private strike(contender: Contender): void {
    const { random } = this.stage;
    const { leaseMs } = this.pace.limits;
    const blow = random.weighted({ pause: 4, clock: 1, loss: 3, stop: 2, death: 2 });
    this.ledger.note(`${contender.name}: ${blow}`);
    switch (blow) {
      case "pause":
        contender.machine.pause(random.pick([0.5, 1, 3]) * random.between(leaseMs * 0.6, leaseMs));
        return;
      case "clock":
        contender.machine.setClockForward(random.between(0, 2 * leaseMs));
        return;
      case "loss":
        this.forget(contender);
        return;
      case "stop":
        void contender.owned.stop();
        break;
      case "death":
        contender.machine.die();
    }
    this.join(this.remove(contender));
  }

  /** The engine loses the ownership; the owner gets no notice. */
  private forget(contender: Contender): void {
    const owner = contender.owned.term?.owner;
    if (owner === undefined) return;
    this.ledger.forgotten(owner);
    void this.crewOf(contender).around.engine.release(e, owner).catch(unknown);
  }

  async audit(): Promise<void> {
    const { leaseMs, retryMs } = this.pace.limits;
    await this.gainedWithin("the end of all trouble", 2 * leaseMs);
    const dead = this.owner;
    dead?.machine.die();
    if (dead) this.join(this.remove(dead));
    await this.gainedWithin("the death of the owner", leaseMs + retryMs);
    const leaving = this.owner;
    await leaving?.owned.stop();
    if (leaving) this.join(this.remove(leaving));
    await this.gainedWithin("the release of the owner", leaseMs / 3);
    await Promise.all(this.contenders.map(({ owned }) => owned.stop()));
    const { engine } = this.stage.host;
    const free = await engine!.claim(e, "auditor", leaseMs);
    if (free.kind !== "owner") this.ledger.object("every contender has stopped, and the entity is still owned");
    this.ledger.audit(await readAll(engine!));
  }

  /** Some contender must own the entity soon, and be able to commit. */
  private async gainedWithin(after: string, ms: number): Promise<void> {
    const { world } = this.stage;
    const untilMs = world.now() + ms * SLOWEST + CALLS_MS;
    while (this.owner === undefined && world.now() < untilMs) await world.sleep(1);
    const term = this.owner?.owned.term;
    if (term === undefined) this.ledger.object(`no contender owns the entity ${ms} ms after ${after}`);
    else await this.owner!.commit(term);
  }

  private get contenders(): readonly Contender[] {
    return [...this.crews.values()].flatMap(({ process, contenders }) => (process.alive ? contenders : []));
  }

  private get owner(): Contender | undefined {
    return this.contenders.find(({ owned }) => owned.term !== undefined);
  }

  private remove(contender: Contender): Crew {
    const crew = this.crewOf(contender);
    crew.contenders.splice(crew.contenders.indexOf(contender), 1);
    return crew;
  }

  private crewOf(contender: Contender): Crew {
    return [...this.crews.values()].find(({ contenders }) => contenders.includes(contender))!;
  }

  violations(): string[] {
    return this.ledger.violations;
  }

  tell(): string[] {
    return this.ledger.story;
  }
}

async function readAll(engine: Engine): Promise<string[]> {
  const texts: string[] = [];
  for (let after = ZERO, isAtTail = false; !isAtTail; ) {
    const page = await engine.read(e, after, PAGE_BYTES);
    texts.push(...page.messages.map(({ payload }) => new TextDecoder().decode(payload)));
    after = page.messages.at(-1)?.position ?? after;
    isAtTail = page.atTail;
  }
  return texts;
}
