/**
 * Where the topics and subscriptions of one `PubSub` live: the service of pull over an engine of its own, in memory or in a
 * directory. Every object of that `PubSub` shares it.
 *
 * Invariants: two queues share nothing. The engine opens with the first call and closes with `close`. Answers to messages that are
 * given in one turn of the event loop share one call.
 */
import { FULL_ACCESS } from "../core/action.ts";
import { Audience } from "../core/audience.ts";
import type { World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import { Keepers } from "../engine/keeper.ts";
import { Sweeper } from "../engine/sweeper.ts";
import type {
  AckOutcome,
  NewMessage,
  NewSubscription,
  PullService,
  PullStream,
  SeekTarget,
  StreamEvents,
  StreamOptions,
  SubscriptionChange,
} from "../pull/contract.ts";
import { PULL_LIMITS } from "../pull/defaults.ts";
import { pullFeature } from "../pull/feature.ts";
import { realWorld } from "../real-world.ts";
import { Streams } from "../streams/service.ts";
import { errorOf } from "./errors.ts";

export interface QueueOptions {
  /** A directory for durable data; without it everything is in memory. One process at a time may use a directory. */
  readonly data?: string | undefined;
  /** The project that names belong to. */
  readonly project: string;
  /** The clock and timers; tests pass their own. */
  readonly world?: World | undefined;
}

interface Opened {
  readonly engine: Engine;
  readonly service: PullService;
  close(): Promise<void>;
}

/** Acknowledgements of one turn of the event loop, and the callbacks for their outcomes. */
interface Acks {
  readonly ids: string[];
  readonly told: ((outcome: AckOutcome) => void)[];
}

export class MessageQueue {
  readonly world: World;
  /** The message streams that are open; `close` stops them. */
  readonly streams = new Set<{ stop(options: { readonly mode: "nack" }): Promise<void> }>();
  private opening: Promise<Opened> | undefined;
  private isClosed = false;
  /** By subscription. */
  private readonly acks = new Map<string, Acks>();

  constructor(private readonly options: QueueOptions) {
    this.world = options.world ?? realWorld();
  }

  private open(): Promise<Opened> {
    if (this.isClosed) return Promise.reject(errorOf(new Error("the PubSub is closed")));
    this.opening ??= openStore(this.options, this.world);
    return this.opening;
  }

  private async call<T>(what: (service: PullService, project: string) => Promise<T>): Promise<T> {
    try {
      return await what((await this.open()).service, this.options.project);
    } catch (fault) {
      throw errorOf(fault);
    }
  }

  createTopic(topic: string) {
    return this.call((service, project) => service.createTopic(project, topic, {}, FULL_ACCESS));
  }

  deleteTopic(topic: string) {
    return this.call((service, project) => service.deleteTopic(project, topic, FULL_ACCESS));
  }

  topic(topic: string) {
    return this.call((service, project) => service.topic(project, topic, FULL_ACCESS));
  }

  /** The names of all topics. */
  topics(): Promise<string[]> {
    return this.call((service, project) => all((after) => service.topics(project, { after }, FULL_ACCESS)));
  }

  publish(topic: string, messages: readonly NewMessage[]): Promise<string[]> {
    return this.call((service, project) => service.publish(project, topic, messages, FULL_ACCESS));
  }

  createSubscription(name: string, asked: NewSubscription) {
    return this.call((service, project) => service.create(project, name, asked, FULL_ACCESS));
  }

  subscription(name: string) {
    return this.call((service, project) => service.get(project, name, FULL_ACCESS));
  }

  subscriptions(): Promise<string[]> {
    return this.call((service, project) => all((after) => service.list(project, { after }, FULL_ACCESS)));
  }

  updateSubscription(name: string, change: SubscriptionChange) {
    return this.call((service, project) => service.update(project, name, change, FULL_ACCESS));
  }

  deleteSubscription(name: string) {
    return this.call((service, project) => service.delete(project, name, FULL_ACCESS));
  }

  detachSubscription(name: string) {
    return this.call((service, project) => service.detach(project, name, FULL_ACCESS));
  }

  seek(name: string, to: SeekTarget) {
    return this.call((service, project) => service.seek(project, name, to, FULL_ACCESS));
  }

  createSnapshot(snapshot: string, subscription: string) {
    return this.call((service, project) => service.createSnapshot(project, snapshot, subscription, {}, FULL_ACCESS));
  }

  deleteSnapshot(snapshot: string) {
    return this.call((service, project) => service.deleteSnapshot(project, snapshot, FULL_ACCESS));
  }

  /** Opens a stream of a subscription. */
  stream(name: string, asked: StreamOptions, to: StreamEvents): Promise<PullStream> {
    return this.call((service, project) => service.open(project, name, asked, to, FULL_ACCESS));
  }

  /** `told` gets the outcome. It is a callback, because a promise per message would cost more than the acknowledgement. */
  ack(name: string, ackId: string, told: (outcome: AckOutcome) => void): void {
    let acks = this.acks.get(name);
    if (acks === undefined) {
      acks = { ids: [], told: [] };
      this.acks.set(name, acks);
      this.world.soon(() => this.sendAcks(name));
    }
    acks.ids.push(ackId);
    acks.told.push(told);
  }

  private sendAcks(name: string): void {
    const { ids, told } = this.acks.get(name)!;
    this.acks.delete(name);
    this.call((service, project) => service.acknowledge(project, name, ids, FULL_ACCESS)).then(
      (outcomes) => {
        for (const [i, one] of told.entries()) one(outcomes[i]!);
      },
      () => {
        for (const one of told) one("failed");
      },
    );
  }

  async nack(name: string, ackId: string, delayMs?: number): Promise<AckOutcome> {
    const [outcome] = await this.call((service, project) => service.nack(project, name, [ackId], delayMs, FULL_ACCESS));
    return outcome!;
  }

  async modifyAckDeadline(name: string, ackId: string, deadlineMs: number): Promise<AckOutcome> {
    const [outcome] = await this.call((service, project) =>
      service.modifyAckDeadline(project, name, [ackId], deadlineMs, FULL_ACCESS),
    );
    return outcome!;
  }

  /** Gives back what is in flight, flushes and closes. */
  async close(): Promise<void> {
    await Promise.all([...this.streams].map((stream) => stream.stop({ mode: "nack" })));
    const opened = await this.opening?.catch(() => undefined);
    this.isClosed = true;
    this.opening = undefined;
    await opened?.close();
  }
}

async function openStore({ data }: QueueOptions, world: World): Promise<Opened> {
  const engine = await openEngine(data, world);
  const keepers = new Keepers(engine, (task) => world.soon(task));
  const streams = new Streams(engine, keepers, world);
  // What fails in the background is repeated; what fails for a caller rejects its promise.
  const report = () => {};
  const audience = new Audience(Number.MAX_SAFE_INTEGER, 100);
  const pull = pullFeature({ engine, keepers, world, audience, report }, PULL_LIMITS, { streams });
  const sweeper = new Sweeper(engine, world, report);
  for (const kind of pull.kinds) sweeper.handle(kind);
  return {
    engine,
    service: pull.service,
    close: async () => {
      await Promise.all([pull.stop(), sweeper.stop()]);
      await engine.close();
    },
  };
}

/** Loads the disk engine only if it is asked for. */
async function openEngine(data: string | undefined, world: World): Promise<Engine> {
  if (data === undefined) {
    const { openMemory } = await import("../engine/memory/memory.ts");
    return openMemory({ world });
  }
  const { openDisk } = await import("../engine/disk/open.ts");
  return openDisk({ dir: data, world });
}

async function all(
  page: (
    after: string | undefined,
  ) => Promise<{ items: readonly { readonly name: string }[]; next: string | undefined }>,
): Promise<string[]> {
  const names: string[] = [];
  for (let after: string | undefined; ; ) {
    const { items, next } = await page(after);
    names.push(...items.map(({ name }) => name));
    if (next === undefined) return names;
    after = next;
  }
}
