/**
 * Groups: members share the streams of a topic filter, durably. Compose calls it; `docs/groups.md` tells how it works.
 */
import { isMemoryTruth } from "../engine/other-nodes.ts";
import type { Feature, Kernel } from "../feature.ts";
import type { Streams } from "../streams/service.ts";
import { GroupAgent } from "./agent.ts";
import { Carrier } from "./carrier.ts";
import type { GroupLimits } from "./defaults.ts";
import { Hints } from "./hints.ts";
import { LeaderRegistry } from "./leader-registry.ts";
import { Groups } from "./service.ts";
import { Topics } from "./topics.ts";

export function groupsFeature(kernel: Kernel, limits: GroupLimits, { streams }: { readonly streams: Streams }) {
  const { engine, keepers, world, report } = kernel;
  const { relistMs, pagePaths, pageRows, batch, checkMs, hintMs } = limits;
  const carrier = new Carrier(engine, world);
  const list = (project: string, after: string, limit: number) => streams.list(project, "", after, limit);
  const topics = new Topics({ world, list, pagePaths, relistMs, report });
  const claim = { leaseMs: limits.claimMs, retryMs: limits.claimRetryMs };
  const leading = {
    engine,
    keepers,
    world,
    streams,
    topics,
    carrier,
    timers: limits,
    pageRows,
    batch,
    checkMs,
    claim,
    report,
  };
  const registry = new LeaderRegistry(leading);
  const agent = new GroupAgent({ world, carrier, timers: limits });
  const service = new Groups({ engine, keepers, world, streams, agent, limits });
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
    routes: [],
    start: () => {
      carrier.start({
        toLeader: (envelope) => registry.take(envelope),
        toBorrower: (envelope) => agent.take(envelope),
      });
      hints.start();
    },
    stop: async () => {
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
