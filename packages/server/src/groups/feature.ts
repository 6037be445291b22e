/**
 * Groups: members share the streams of a topic filter, durably. Compose calls it; `docs/groups.md` tells how it works.
 */

import { Refusal } from "../core/refusal.ts";
import { type AddressName, READING, route } from "../core/route.ts";
import { isMemoryTruth } from "../engine/other-nodes.ts";
import type { Feature, Kernel } from "../feature.ts";
import type { Streams } from "../streams/service.ts";
import { GroupAgent } from "./agent.ts";
import { Carrier } from "./carrier.ts";
import { ConsumeConnections } from "./connection.ts";
import { DeclaredHolds } from "./declared-holds.ts";
import type { GroupLimits } from "./defaults.ts";
import { describeGroups as describe } from "./describe.ts";
import { Hints } from "./hints.ts";
import { Inquiries } from "./inquiries.ts";
import { LeaderRegistry } from "./leader-registry.ts";
import { viewOf } from "./leader-view.ts";
import { groupMetrics } from "./metrics.ts";
import {
  CONSUME_ADDRESS,
  GROUP_ADDRESS,
  GROUPS_ADDRESS,
  GroupRoutes,
  REDRIVE_ADDRESS,
  SEEK_ADDRESS,
} from "./routes.ts";
import { CONSUME, Groups } from "./service.ts";
import { Survey } from "./survey.ts";
import { Topics } from "./topics.ts";

const group: AddressName = {
  says: "The name of a group, percent-encoded.",
  read(encoded, names) {
    names.group = parseGroup(encoded);
  },
};

function parseGroup(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    throw new Refusal(
      "bad-request",
      "the name of the group has a malformed percent escape; escapes must be UTF-8 in the form %XX",
    );
  }
}

export function groupsFeature(kernel: Kernel, limits: GroupLimits, { streams }: { readonly streams: Streams }) {
  const { engine, keepers, world, audience, report } = kernel;
  const { relistMs, pagePaths, hintMs } = limits;
  const carrier = new Carrier(engine, world);
  const list = (project: string, after: string, limit: number) => streams.list(project, "", after, limit);
  const topics = new Topics({ world, list, pagePaths, relistMs, report });
  const claim = { leaseMs: limits.claimMs, retryMs: limits.claimRetryMs };
  const leading = { ...limits, engine, keepers, world, streams, topics, carrier, timers: limits, claim, report };
  const registry = new LeaderRegistry(leading);
  const agent = new GroupAgent({ world, carrier, timers: limits });
  const viewOfKey = (key: string) => {
    const leader = registry.leaderOf(key);
    return leader && viewOf(leader, engine.node);
  };
  const inquiries = new Inquiries({ engine, world, askMs: limits.askMs, viewOf: viewOfKey });
  const holds = new DeclaredHolds({ engine, streams, pagePaths, batch: limits.batch });
  streams.holdNew((project, path) => holds.placeOn(project, path));
  const service = new Groups({ engine, keepers, world, streams, agent, limits, holds, inquiries });
  const survey = new Survey({
    world,
    now: () => engine.now(),
    leaders: () => registry.serving(),
    after: (project, path, position) => service.after(project, path, position),
    stepMs: limits.surveyMs,
    perStep: limits.surveyStreams,
  });
  const connections = new ConsumeConnections({ engine, world, audience, groups: service, limits, report });
  const routes = new GroupRoutes({ groups: service, connections, audience, world, limits });
  const hear = ({ kind, project, path }: { kind: "created" | "deleted"; project: string; path: string }) =>
    kind === "created" ? topics.created(project, path) : topics.deleted(project, path);
  const hints = new Hints({ engine, world, hintMs, hear });
  streams.onEvent(({ kind, project, path }) => {
    if (kind !== "created" && kind !== "deleted") return;
    hear({ kind, project, path });
    if (!isMemoryTruth(engine)) hints.send({ kind, project, path });
  });
  return {
    title: "Groups",
    names: { group },
    routes: [
      route({
        name: CONSUME.action,
        need: CONSUME.need,
        methods: ["GET"],
        address: CONSUME_ADDRESS,
        handle: (call, request) => routes.consume(call, request),
        describe: describe.consume,
      }),
      route({
        name: "group.list",
        need: "read",
        methods: READING,
        address: GROUPS_ADDRESS,
        handle: (call, request) => routes.list(call, request),
        describe: describe.list,
      }),
      route({
        name: "group.get",
        need: "read",
        methods: READING,
        address: GROUP_ADDRESS,
        handle: (call, request) => routes.get(call, request),
        describe: describe.get,
      }),
      route({
        name: "group.put",
        need: "write",
        methods: ["PUT"],
        address: GROUP_ADDRESS,
        handle: (call, request) => routes.put(call, request),
        describe: describe.put,
      }),
      route({
        name: "group.seek",
        need: "write",
        methods: ["POST"],
        address: SEEK_ADDRESS,
        handle: (call, request) => routes.seek(call, request),
        describe: describe.seek,
      }),
      route({
        name: "group.redrive",
        need: "write",
        methods: ["POST"],
        address: REDRIVE_ADDRESS,
        handle: (call, request) => routes.redrive(call, request),
        describe: describe.redrive,
      }),
      route({
        name: "group.delete",
        need: "write",
        methods: ["DELETE"],
        address: GROUP_ADDRESS,
        handle: (call, request) => routes.delete(call, request),
        describe: describe.delete,
      }),
    ],
    metrics: groupMetrics(registry, agent, connections, survey),
    start: () => {
      carrier.start({
        toLeader: (envelope) => registry.take(envelope),
        toBorrower: (envelope) => agent.take(envelope),
      });
      hints.start();
      inquiries.start();
      survey.start();
    },
    stop: async () => {
      survey.stop();
      inquiries.stop();
      agent.stop();
      await registry.stop();
      hints.stop();
      carrier.stop();
      topics.stop();
    },
    service,
    agent,
    registry,
  } satisfies Feature & Record<string, unknown>;
}
