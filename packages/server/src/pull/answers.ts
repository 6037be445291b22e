/** Calls the service for a frame of a pull connection that needs no stream, and makes its answer. `connection.ts` calls it. */
import type { Access } from "../core/action.ts";
import { badBody } from "../core/json-body.ts";
import type { PullService, SeekTarget } from "./contract.ts";
import { deliveredOf, type Frame } from "./frames.ts";

type Plain = Exclude<Frame, { type: "open" | "pause" | "resume" | "limits" | "close" }>;

export async function answerTo(service: PullService, project: string, access: Access, frame: Plain): Promise<object> {
  switch (frame.type) {
    case "ping":
      return {};
    case "createTopic": {
      const { topic, labels, retentionMs } = frame;
      const { value, isNew } = await service.createTopic(project, topic, { labels, retentionMs }, access);
      return { topic: value, isNew };
    }
    case "topic":
      return { topic: await service.topic(project, frame.topic, access) };
    case "topics": {
      const { items, next } = await service.topics(project, frame, access);
      return { topics: items, next };
    }
    case "deleteTopic":
      await service.deleteTopic(project, frame.topic, access);
      return {};
    case "publish":
      return { messageIds: await service.publish(project, frame.topic, frame.messages, access) };
    case "create": {
      const { type, ref, subscription, ...asked } = frame;
      const { value, isNew } = await service.create(project, subscription, asked, access);
      return { subscription: value, isNew };
    }
    case "get":
      return { subscription: await service.get(project, frame.subscription, access) };
    case "list":
      return list(service, project, access, frame);
    case "update": {
      const { type, ref, subscription, ...change } = frame;
      return { subscription: await service.update(project, subscription, change, access) };
    }
    case "delete":
      await service.delete(project, frame.subscription, access);
      return {};
    case "detach":
      await service.detach(project, frame.subscription, access);
      return {};
    case "seek":
      await service.seek(project, frame.subscription, targetOf(frame), access);
      return {};
    case "redrive":
      return { messages: await service.redrive(project, frame.subscription, access) };
    case "createSnapshot": {
      const { snapshot, subscription, labels } = frame;
      return { snapshot: await service.createSnapshot(project, snapshot, subscription, { labels }, access) };
    }
    case "snapshots":
      return snapshots(service, project, access, frame);
    case "deleteSnapshot":
      await service.deleteSnapshot(project, frame.snapshot, access);
      return {};
    case "pull":
      return { messages: (await service.pull(project, frame.subscription, frame, access)).map(deliveredOf) };
    case "ack":
      return { outcomes: await service.acknowledge(project, frame.subscription, frame.ackIds, access) };
    case "nack": {
      const { subscription, ackIds, delayMs } = frame;
      return { outcomes: await service.nack(project, subscription, ackIds, delayMs, access) };
    }
    case "extend": {
      const { subscription, ackIds, deadlineMs } = frame;
      return { outcomes: await service.modifyAckDeadline(project, subscription, ackIds, deadlineMs, access) };
    }
  }
}

/** The subscriptions of the project, or the names of those of a topic. */
async function list(service: PullService, project: string, access: Access, frame: Frame<"list">): Promise<object> {
  const { topic } = frame;
  if (topic === undefined) {
    const { items, next } = await service.list(project, frame, access);
    return { subscriptions: items, next };
  }
  const { items, next } = await service.subscriptionsOf(project, topic, frame, access);
  return { names: items, next };
}

async function snapshots(
  service: PullService,
  project: string,
  access: Access,
  frame: Frame<"snapshots">,
): Promise<object> {
  const { topic } = frame;
  if (topic === undefined) {
    const { items, next } = await service.snapshots(project, frame, access);
    return { snapshots: items, next };
  }
  const { items, next } = await service.snapshotsOf(project, topic, frame, access);
  return { names: items, next };
}

function targetOf({ timeMs, snapshot }: Frame<"seek">): SeekTarget {
  if (timeMs !== undefined && snapshot === undefined) return { timeMs };
  if (snapshot !== undefined && timeMs === undefined) return { snapshot };
  throw badBody("a seek needs either timeMs or snapshot");
}
