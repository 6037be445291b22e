/**
 * The limits of channels, with their defaults. The configuration takes its defaults from here. It may set other limits for a project, and within it for channels whose ids match a topic filter. Service, rules and routes call `limitsFor`.
 */
import { CONNECTION_LIMITS } from "../core/connection.ts";
import { matchesFilter, parseFilter, type TopicFilter } from "../core/topic.ts";

export interface ChannelLimits {
  /** The body of one publish. */
  readonly bodyBytes: number;
  /** Publishes per window and channel, whatever number of messages they carry. */
  readonly rate: number;
  readonly windowMs: number;
  /** Messages kept; up to a twentieth more may be. */
  readonly messages: number;
  /** How long a channel is kept after its END. */
  readonly ttlMs: number;
  /** A channel without a publish for this long is abandoned. */
  readonly idleMs: number;
  /** How often the sweep checks a channel for that. */
  readonly cleanupMs: number;
  /** How often readers get a comment. */
  readonly heartbeatMs: number;
  /** Unbroken runs of sequences that are remembered, to recognize a late repetition. */
  readonly runs: number;
}

export const CHANNEL_LIMITS: ChannelLimits = {
  bodyBytes: 16 * 1024,
  rate: 20,
  windowMs: 1_000,
  messages: 1_200,
  ttlMs: 120_000,
  idleMs: 120_000,
  cleanupMs: 120_000,
  heartbeatMs: CONNECTION_LIMITS.heartbeatMs,
  runs: 64,
};

/** Undefined: the more general limit applies. */
export type SomeLimits = { readonly [K in keyof ChannelLimits]?: ChannelLimits[K] | undefined };

/** The limits of one project. */
export interface ProjectLimits extends SomeLimits {
  /** By topic filter on the channel's id. Where several match, the later ones win. */
  readonly filters?: Readonly<Record<string, SomeLimits>> | undefined;
}

export type LimitsFor = (project: string, channel: string) => ChannelLimits;

interface Resolved {
  readonly limits: ChannelLimits;
  readonly filters: readonly { readonly filter: TopicFilter; readonly limits: SomeLimits }[];
}

export function limitsFor(general: ChannelLimits, byProject: ReadonlyMap<string, ProjectLimits>): LimitsFor {
  const resolved = new Map<string, Resolved>();
  for (const [project, { filters = {}, ...own }] of byProject) {
    const parsed = Object.entries(filters).map(([text, limits]) => ({ filter: parseFilter(text)!, limits }));
    resolved.set(project, { limits: over(general, own), filters: parsed });
  }
  return (project, channel) => {
    const found = resolved.get(project);
    if (found === undefined) return general;
    let { limits } = found;
    for (const one of found.filters) if (matchesFilter(one.filter, channel)) limits = over(limits, one.limits);
    return limits;
  };
}

function over(limits: ChannelLimits, some: SomeLimits): ChannelLimits {
  const given = Object.entries(some).filter(([, value]) => value !== undefined);
  return given.length === 0 ? limits : { ...limits, ...Object.fromEntries(given) };
}
