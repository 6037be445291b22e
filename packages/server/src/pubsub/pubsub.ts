/**
 * The library's entrance in process: topics and subscriptions in memory or in a directory.
 *
 * Invariants: each `PubSub` has a store of its own and shares nothing with another one.
 */
import { MessageQueue, PubSubBase } from "@sluice/client/pubsub";
import type { World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import { realWorld } from "../real-world.ts";
import { openEngine, servicePort } from "./service-port.ts";

export interface PubSubOptions {
  /** A directory for durable data; without it everything is in memory. One process at a time may use a directory. */
  readonly data?: string | undefined;
  /** The project that names belong to; a server on the same directory shows it under this name. */
  readonly projectId?: string | undefined;
}

export class PubSub extends PubSubBase {
  /** Only tests pass a world and an engine. */
  constructor(
    { data, projectId = "default" }: PubSubOptions = {},
    world: World = realWorld(),
    engine: () => Promise<Engine> = () => openEngine(data, world),
  ) {
    super(new MessageQueue(world, async () => servicePort(await engine(), projectId, world)));
  }
}
