/**
 * The service of pull, as every door uses it: one object over its parts, topics, subscriptions, delivery, snapshots and schemas. Its
 * interface is in `contract.ts`.
 */
import { Backlogs } from "./backlog.ts";
import { Consuming } from "./consuming.ts";
import type { PullService } from "./contract.ts";
import type { PullParts } from "./parts.ts";
import type { DispatcherRegistry } from "./registry.ts";
import type { RemoteSubscriptions } from "./remote-subscriptions.ts";
import { Schemas } from "./schemas.ts";
import { Snapshots } from "./snapshots.ts";
import { Subscriptions } from "./subscriptions.ts";
import { Topics } from "./topics.ts";

export type * from "./contract.ts";

export function pullService(parts: PullParts, registry: DispatcherRegistry, remote: RemoteSubscriptions) {
  const topics = new Topics(parts);
  const snapshots = new Snapshots(parts);
  const subscriptions = new Subscriptions(parts, registry, snapshots);
  const schemas = new Schemas(parts);
  const consuming = new Consuming(parts, registry, remote);
  const backlogs = new Backlogs(parts, subscriptions, registry, remote);
  const service: PullService = {
    createTopic: (...asked) => topics.create(...asked),
    updateTopic: (...asked) => topics.update(...asked),
    topic: (...asked) => topics.get(...asked),
    topics: (...asked) => topics.list(...asked),
    deleteTopic: (...asked) => topics.delete(...asked),
    publish: (...asked) => topics.publish(...asked),
    subscriptionsOf: (...asked) => subscriptions.listOf(...asked),
    snapshotsOf: (...asked) => snapshots.listOf(...asked),

    create: (...asked) => subscriptions.create(...asked),
    get: (...asked) => subscriptions.get(...asked),
    info: (...asked) => backlogs.info(...asked),
    list: (...asked) => subscriptions.list(...asked),
    update: (...asked) => subscriptions.update(...asked),
    delete: (...asked) => subscriptions.delete(...asked),
    detach: (...asked) => subscriptions.detach(...asked),
    seek: (...asked) => subscriptions.seek(...asked),
    redrive: (...asked) => subscriptions.redrive(...asked),

    pull: (...asked) => consuming.pull(...asked),
    open: (...asked) => consuming.open(...asked),
    acknowledge: (...asked) => consuming.acknowledge(...asked),
    modifyAckDeadline: (...asked) => consuming.modifyAckDeadline(...asked),
    nack: (...asked) => consuming.nack(...asked),

    createSnapshot: (...asked) => snapshots.create(...asked),
    snapshot: (...asked) => snapshots.get(...asked),
    snapshots: (...asked) => snapshots.list(...asked),
    updateSnapshot: (...asked) => snapshots.update(...asked),
    deleteSnapshot: (...asked) => snapshots.delete(...asked),

    createSchema: (...asked) => schemas.create(...asked),
    schema: (...asked) => schemas.get(...asked),
    schemas: (...asked) => schemas.list(...asked),
    commitSchema: (...asked) => schemas.commit(...asked),
    rollbackSchema: (...asked) => schemas.rollback(...asked),
    deleteSchemaRevision: (...asked) => schemas.deleteRevision(...asked),
    updateSchema: (...asked) => schemas.update(...asked),
    deleteSchema: (...asked) => schemas.delete(...asked),
  };
  return {
    service,
    sweepSubscription: subscriptions.sweep.bind(subscriptions),
    sweepSnapshot: snapshots.sweep.bind(snapshots),
  };
}
