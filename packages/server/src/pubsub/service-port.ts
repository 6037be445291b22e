/**
 * The port of the library in process: the service of pull over an engine of its own, in memory or in a directory. A `PubSub` opens
 * one with its first call.
 *
 * Invariants: the caller of the library may do everything. The engine closes with the port.
 */
import type { PullPort } from "@sluice/client/pubsub";
import { FULL_ACCESS } from "../core/action.ts";
import { Audience } from "../core/audience.ts";
import type { World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import { Keepers } from "../engine/keeper.ts";
import { Sweeper } from "../engine/sweeper.ts";
import type { PullService } from "../pull/contract.ts";
import { PULL_LIMITS } from "../pull/defaults.ts";
import { pullFeature } from "../pull/feature.ts";
import { Streams } from "../streams/service.ts";

export function servicePort(engine: Engine, project: string, world: World): PullPort {
  const keepers = new Keepers(engine, (task) => world.soon(task));
  const streams = new Streams(engine, keepers, world);
  // What fails in the background is repeated; what fails for a caller rejects its promise.
  const report = () => {};
  const audience = new Audience(Number.MAX_SAFE_INTEGER, 100);
  const pull = pullFeature({ engine, keepers, world, audience, report }, PULL_LIMITS, { streams });
  const sweeper = new Sweeper(engine, world, report);
  for (const kind of pull.kinds) sweeper.handle(kind);
  return portTo(pull.service, project, async () => {
    await Promise.all([pull.stop(), sweeper.stop()]);
    await engine.close();
  });
}

/** Loads the disk engine only if it is asked for. */
export async function openEngine(data: string | undefined, world: World): Promise<Engine> {
  if (data === undefined) {
    const { openMemory } = await import("../engine/memory/memory.ts");
    return openMemory({ world });
  }
  const { openDisk } = await import("../engine/disk/open.ts");
  return openDisk({ dir: data, world });
}

/** The service, for one project and a caller that may do everything. */
function portTo(service: PullService, project: string, close: () => Promise<void>): PullPort {
  return {
    createTopic: (topic) => service.createTopic(project, topic, {}, FULL_ACCESS),
    topic: (topic) => service.topic(project, topic, FULL_ACCESS),
    topics: (page) => service.topics(project, page, FULL_ACCESS),
    deleteTopic: (topic) => service.deleteTopic(project, topic, FULL_ACCESS),
    publish: (topic, messages) => service.publish(project, topic, messages, FULL_ACCESS),
    create: (name, asked) => service.create(project, name, asked, FULL_ACCESS),
    get: (name) => service.get(project, name, FULL_ACCESS),
    list: (page) => service.list(project, page, FULL_ACCESS),
    update: (name, change) => service.update(project, name, change, FULL_ACCESS),
    delete: (name) => service.delete(project, name, FULL_ACCESS),
    detach: (name) => service.detach(project, name, FULL_ACCESS),
    seek: (name, to) => service.seek(project, name, to, FULL_ACCESS),
    redrive: (name) => service.redrive(project, name, FULL_ACCESS),
    createSnapshot: (snapshot, name) => service.createSnapshot(project, snapshot, name, {}, FULL_ACCESS),
    deleteSnapshot: (snapshot) => service.deleteSnapshot(project, snapshot, FULL_ACCESS),
    open: (name, asked, to) => service.open(project, name, asked, to, FULL_ACCESS),
    acknowledge: (name, ids) => service.acknowledge(project, name, ids, FULL_ACCESS),
    nack: (name, ids, delayMs) => service.nack(project, name, ids, delayMs, FULL_ACCESS),
    modifyAckDeadline: (name, ids, ms) => service.modifyAckDeadline(project, name, ids, ms, FULL_ACCESS),
    close,
  };
}
