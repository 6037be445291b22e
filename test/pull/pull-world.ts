/** The service of pull on an engine of the test's choice, with a clock that the test moves. The tests of pull use it. */
import { onTestFinished } from "vitest";
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import { Audience } from "../../packages/server/src/core/audience.ts";
import type { Engine, ToldListener } from "../../packages/server/src/engine/contract.ts";
import { Keepers } from "../../packages/server/src/engine/keeper.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import type {
  Delivery,
  NewMessage,
  NewSubscription,
  StreamEnd,
  StreamEvents,
  StreamNotice,
  StreamOptions,
} from "../../packages/server/src/pull/contract.ts";
import { PULL_LIMITS } from "../../packages/server/src/pull/defaults.ts";
import { pullFeature } from "../../packages/server/src/pull/feature.ts";
import { Streams } from "../../packages/server/src/streams/service.ts";
import type { EngineName } from "../e2e/server.ts";
import { type QuietWorld, quietWorld } from "../support/quiet-world.ts";
import { engineWith, pullEngine } from "./pull-engine.ts";

export const P = "p";

export class PullNode {
  readonly streams: Streams;
  readonly feature: ReturnType<typeof pullFeature>;
  readonly faults: unknown[] = [];

  constructor(
    readonly engine: Engine,
    readonly world: QuietWorld,
  ) {
    const keepers = new Keepers(engine, (task) => world.soon(task));
    this.streams = new Streams(engine, keepers, world);
    const report = (what: string, fault: unknown) => void this.faults.push(what, fault);
    const kernel = { engine, keepers, world, audience: new Audience(100, 100), report };
    this.feature = pullFeature(kernel, PULL_LIMITS, { streams: this.streams });
    this.feature.start();
  }

  get service() {
    return this.feature.service;
  }

  topic(name = "t") {
    return this.service.createTopic(P, name, {}, FULL_ACCESS);
  }

  async subscribe(asked: Partial<NewSubscription> = {}, name = "s") {
    return (await this.service.create(P, name, { topic: "t", ...asked }, FULL_ACCESS)).value;
  }

  publish(...messages: (string | Partial<NewMessage>)[]) {
    const all = messages.map((one) =>
      typeof one === "string" ? { data: Buffer.from(one) } : { data: Buffer.from("x"), ...one },
    );
    return this.service.publish(P, "t", all, FULL_ACCESS);
  }

  pull(maxMessages = 10, name = "s") {
    return this.service.pull(P, name, { maxMessages }, FULL_ACCESS);
  }

  ack(...messages: readonly { readonly ackId: string }[]) {
    return this.service.acknowledge(P, "s", messages.map(ackIdOf), FULL_ACCESS);
  }

  nack(delayMs: number | undefined, ...messages: readonly { readonly ackId: string }[]) {
    return this.service.nack(P, "s", messages.map(ackIdOf), delayMs, FULL_ACCESS);
  }

  extend(ms: number, ...messages: readonly { readonly ackId: string }[]) {
    return this.service.modifyAckDeadline(P, "s", messages.map(ackIdOf), ms, FULL_ACCESS);
  }

  async stream(asked: StreamOptions = {}, name = "s") {
    const got: Delivery[] = [];
    const told: (StreamEnd | StreamNotice)[] = [];
    const stream = await this.service.open(
      P,
      name,
      asked,
      {
        deliver: (messages) => void got.push(...messages),
        notice: (what) => void told.push(what),
        ended: (why) => void told.push(why),
      },
      FULL_ACCESS,
    );
    return { stream, got, told };
  }

  open(asked: StreamOptions, events: Omit<StreamEvents, "ended">, name = "s") {
    return this.service.open(P, name, asked, { ended: () => {}, ...events }, FULL_ACCESS);
  }

  /** Moves the clock, and lets everything happen that follows. */
  pass(ms: number): Promise<void> {
    return this.world.pass(ms);
  }

  /** Resolves when nothing happens any more until the clock moves. */
  settled(): Promise<void> {
    return this.world.quiet();
  }
}

const ackIdOf = ({ ackId }: { readonly ackId: string }) => ackId;

export async function pullNode(engine: EngineName): Promise<PullNode> {
  const world = quietWorld(1);
  const node = new PullNode(await pullEngine(engine, world), world);
  onTestFinished(async () => {
    await node.feature.stop();
    if (node.faults.length > 0) throw new Error(`faults were reported: ${node.faults.join("; ")}`);
  });
  return node;
}

/** A node with the subscription `s` of the topic `t`. */
export async function subscribedNode(engine: EngineName, asked?: Partial<NewSubscription>): Promise<PullNode> {
  const node = await pullNode(engine);
  await node.topic();
  await node.subscribe(asked);
  return node;
}

/** How often a message between two nodes comes: 0 for a lost one. */
export type Copies = (text: string) => number;

/** Two nodes over one memory engine. Messages between them take a turn of the event loop. */
export async function twoNodes(copies: Copies = () => 1): Promise<[PullNode, PullNode]> {
  const world = quietWorld(1);
  const engine = world.counted(openMemory({ world }));
  const listeners = new Map<string, Set<ToldListener>>();
  const all = () => [...listeners.keys()].map((id) => ({ id, aliveUntilMs: Number.POSITIVE_INFINITY }));
  const nodeOf = (node: string): PullNode => {
    const own = new Set<ToldListener>();
    listeners.set(node, own);
    const tell = (to: string, bytes: Uint8Array) => {
      const copy = bytes.slice();
      for (let i = copies(Buffer.from(copy).toString()); i > 0; i--) {
        world.soon(() => {
          for (const listener of listeners.get(to) ?? []) listener(copy, node);
        });
      }
    };
    const onTold = (listener: ToldListener) => {
      own.add(listener);
      return () => void own.delete(listener);
    };
    return new PullNode(engineWith(engine, { node, exclusive: false, tell, onTold, nodes: all }), world);
  };
  const nodes: [PullNode, PullNode] = [nodeOf("a"), nodeOf("b")];
  onTestFinished(async () => {
    for (const { feature } of nodes) await feature.stop();
  });
  return nodes;
}

export function texts(messages: readonly Delivery[]): string[] {
  return messages.map(({ data }) => Buffer.from(data).toString());
}
