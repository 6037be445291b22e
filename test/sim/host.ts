/**
 * The machine of a simulated server: starts it, kills it at any event, shuts it down as `compose` would, and restarts it on
 * the surviving storage. The simulation makes one per server.
 *
 * Invariants: the code between engine and door is the real one (`buildApp`, `route`, `renderFault`).
 */
import { buildApp } from "../../packages/server/src/compose.ts";
import type { Reply } from "../../packages/server/src/core/http.ts";
import { renderFault } from "../../packages/server/src/doors/http/problem.ts";
import { type Engine, EngineError } from "../../packages/server/src/engine/contract.ts";
import { type ServerOptions, type ServerSettings, withDefaults } from "../../packages/server/src/server-options.ts";
import type { Exchange } from "./exchange.ts";
import type { Door } from "./network.ts";
import type { Death, Storage } from "./storage.ts";
import type { Process, SimWorld } from "./world.ts";

export type App = ReturnType<typeof buildApp>;

export type HostSettings = Omit<ServerOptions, "report">;

/** The parts that a scenario puts between the server and its engine and network. */
export interface Surroundings {
  /** The app's outside, apart from its engine. */
  readonly outside?: (process: Process) => NonNullable<Parameters<typeof buildApp>[3]>;
  /** Gets the engine before the app does, as near to the data as possible. */
  readonly opened?: (engine: Engine, process: Process) => Promise<void>;
}

interface Server {
  readonly process: Process;
  readonly engine: Engine;
  readonly app: App;
}

export class Host implements Door {
  /** Faults that the server reported because no client gets them: each is a defect. */
  readonly faults: string[] = [];
  readonly settings: ServerSettings;
  private process: Process | undefined;
  private server: Server | undefined;
  private listening = false;
  private readonly open = new Set<Exchange>();
  private lives = 0;
  private watchCount = 0;
  /** Set before the first start. */
  surroundings: Surroundings = {};

  constructor(
    private readonly world: SimWorld,
    private readonly storage: Storage,
    settings: HostSettings,
  ) {
    const report = (what: string, fault: unknown) => this.reportFault(what, fault);
    this.settings = withDefaults({ ...settings, report });
  }

  get app(): App | undefined {
    return this.server?.app;
  }

  get engine(): Engine | undefined {
    return this.server?.engine;
  }

  get isUp(): boolean {
    return this.listening;
  }

  /** Whether its storage takes writes; some failures last until a restart. */
  get isHealthy(): boolean {
    return this.server?.engine.health() === undefined;
  }

  /** How many watchers wait for commits. */
  get watches(): number {
    return this.watchCount;
  }

  /** How often it has started. */
  get boots(): number {
    return this.lives;
  }

  async start(): Promise<void> {
    const process = this.world.process(`boot ${++this.lives}`);
    this.process = process;
    const engine = await this.openStorage(process);
    if (engine === undefined || !process.alive) return;
    this.watchCount = 0;
    countWatches(engine, (change) => {
      this.watchCount += change;
    });
    const { outside, opened } = this.surroundings;
    if (opened !== undefined) await this.whileAlive(process, opened(this.storage.beneath ?? engine, process));
    if (!process.alive) return;
    const app = buildApp(this.settings, process, engine, outside?.(process));
    this.server = { process, engine, app };
    process.onEnd(() => this.hangUp());
    app.start();
    this.listening = true;
  }

  /** Undefined when the storage refuses for now, or the process dies while it opens the storage. */
  private async openStorage(process: Process): Promise<Engine | undefined> {
    const death = new Promise<undefined>((resolve) => process.onEnd(() => resolve(undefined)));
    try {
      return await Promise.race([this.storage.open(process), death]);
    } catch (fault) {
      if (!isWeather(fault)) throw fault;
      this.world.log?.(`  the storage does not open: ${fault}`);
      process.end();
      return undefined;
    }
  }

  /** Kills the process at the current event: it finishes, flushes and reports nothing. */
  crash(how: Death): void {
    this.world.log?.(`  ${how}`);
    this.process?.end();
    this.storage.died(how);
  }

  /** Shuts down as a signal would: no new connections, time for requests in flight, then everything is closed. */
  async shutDown(): Promise<void> {
    const { server } = this;
    if (server === undefined) return;
    const { app, engine, process } = server;
    this.listening = false;
    app.drain();
    const cancel = process.after(this.settings.drainMs, () => {
      for (const exchange of [...this.open]) exchange.reset("cut");
    });
    await this.whileAlive(process, this.allAnswered());
    cancel();
    await this.whileAlive(process, app.stop());
    await this.whileAlive(process, engine.close());
    process.end();
  }

  accept(exchange: Exchange): boolean {
    const { server } = this;
    if (server === undefined || !this.listening) return false;
    this.open.add(exchange);
    exchange.arrive(server.process, () => this.forget(exchange));
    this.serve(server, exchange).then(
      (reply) => exchange.send(reply),
      (fault) => exchange.send(renderFault(fault, (unexpected) => this.reportRequest(exchange, unexpected))),
    );
    return true;
  }

  private async serve({ app }: Server, exchange: Exchange): Promise<Reply> {
    return app.router.route(exchange);
  }

  private forget(exchange: Exchange): void {
    this.open.delete(exchange);
    if (this.open.size === 0) for (const wake of this.waiting.splice(0)) wake();
  }

  private readonly waiting: (() => void)[] = [];

  private allAnswered(): Promise<void> {
    return this.open.size === 0 ? Promise.resolve() : new Promise((resolve) => this.waiting.push(resolve));
  }

  /** Waiting for a process ends when that process dies. */
  private whileAlive(process: Process, work: Promise<void>): Promise<void> {
    return Promise.race([work, new Promise<void>((resolve) => (process.alive ? process.onEnd(resolve) : resolve()))]);
  }

  /** The sockets of a dead process close. */
  private hangUp(): void {
    this.listening = false;
    this.server = undefined;
    for (const exchange of [...this.open]) exchange.reset("reset");
    this.open.clear();
    for (const wake of this.waiting.splice(0)) wake();
  }

  private reportRequest(exchange: Exchange, fault: unknown): void {
    // A body that stays incomplete because its client left is no defect.
    if (!exchange.isAbandoned) this.reportFault(`${exchange.method} ${exchange.path}`, fault);
  }

  private reportFault(what: string, fault: unknown): void {
    const text = fault instanceof Error ? (fault.stack ?? fault.message) : String(fault);
    this.world.log?.(`  fault: ${what}: ${text}`);
    if (isWeather(fault)) return;
    this.faults.push(`${what}: ${text}`);
  }
}

/** An unresponsive, full or failed storage is expected; damaged data is not. */
function isWeather(fault: unknown): boolean {
  return fault instanceof EngineError && fault.code !== "data-damaged";
}

function countWatches(engine: Engine, note: (change: 1 | -1) => void): void {
  const watch = engine.watch.bind(engine);
  engine.watch = (e, wake) => {
    const unwatch = watch(e, wake);
    note(1);
    let isOver = false;
    return () => {
      if (!isOver) note(-1);
      isOver = true;
      unwatch();
    };
  };
}
