/**
 * Wake subscriptions as requests and replies: parse, call the service, render. The router calls one function per route,
 * and also renders refusals in the protocol's own shape.
 */
import { header } from "@sluice/protocol";
import type { Access, Permission } from "../core/action.ts";
import { listPage } from "../core/entity-listing.ts";
import { type Headers, type HttpRequest, linkBase, type Reply } from "../core/http.ts";
import { Refusal } from "../core/refusal.ts";
import type { CallTo } from "../core/route.ts";
import { APPEND_TO_STREAM } from "../streams/service.ts";
import { type WakeBodies, wakeBodies } from "./bodies.ts";
import type { WakeLimits } from "./defaults.ts";
import { parseGlob } from "./glob.ts";
import type { SigningKeys } from "./keys.ts";
import { parseAck, parseAddedStreams, parseBearer, parseConfig, parseRelease, parseWorker } from "./parse.ts";
import { absent, alreadyClaimed, outOfReach, tooManyLinks, unproven, wrongType } from "./refusals.ts";
import type { Stored, Wakes } from "./service.ts";
import { type Config, describeLink, linkType } from "./state.ts";
import type { WebhookReach } from "./webhook-targets.ts";

export interface WakeRouteSettings {
  readonly reach: WebhookReach;
  /** Scheme, host and port under which receivers reach the server; undefined: as the creator addressed it. */
  readonly publicUrl?: string | undefined;
  readonly limits: WakeLimits;
}

export const SUBSCRIPTIONS_ADDRESS = "/v1/{project}/stream/__ds/subscriptions";
export const SUBSCRIPTION_ADDRESS = `${SUBSCRIPTIONS_ADDRESS}/{subscription}` as const;
export const LINK_ADDRESS = `${SUBSCRIPTION_ADDRESS}/streams/{path}` as const;
export const KEYS_ADDRESS = "/v1/{project}/stream/__ds/jwks.json";

type SubscriptionCall = CallTo<typeof SUBSCRIPTION_ADDRESS>;
type ListCall = CallTo<typeof SUBSCRIPTIONS_ADDRESS>;
type LinkCall = CallTo<typeof LINK_ADDRESS>;

/** The permission to follow a stream, or a pattern of streams, that a body names. */
const LINK: Permission = { action: "ds.subscription.link", need: "read-and-write" };

const MAX_BASE_CHARS = 1_024;

export class WakeRoutes {
  private readonly bodies: WakeBodies;

  constructor(
    private readonly wakes: Wakes,
    private readonly keys: SigningKeys,
    private readonly settings: WakeRouteSettings,
  ) {
    this.bodies = wakeBodies(settings.limits);
  }

  async put({ project, subscription: id, access }: SubscriptionCall, request: HttpRequest): Promise<Reply> {
    const config = await parseConfig(request, this.bodies, this.settings.reach);
    await demandAll(access, project, id, config);
    const result = await this.wakes.put(project, id, config, this.baseOf(request));
    switch (result.kind) {
      case "created":
      case "exists":
        return this.show(project, id, access, request, result.stored, result.kind === "created" ? 201 : 200);
      case "differs":
        throw new Refusal(
          "subscription-already-exists",
          `the subscription ${id} exists with another configuration; send the same one, or delete it first`,
        );
      case "too-many-links":
        throw tooManyLinks(this.settings.limits.links);
    }
  }

  async get({ project, subscription: id, access }: SubscriptionCall, request: HttpRequest): Promise<Reply> {
    const stored = await this.wakes.get(project, id);
    if (stored === undefined) throw absent(id);
    return this.show(project, id, access, request, stored, 200);
  }

  private async show(
    project: string,
    id: string,
    access: Access,
    request: HttpRequest,
    stored: Stored,
    status: number,
  ): Promise<Reply> {
    if (!isWithinReach(access, stored)) throw outOfReach(id);
    return json(status, await this.shown(project, id, request, stored));
  }

  private async shown(project: string, id: string, request: HttpRequest, stored: Stored): Promise<object> {
    const { config, createdAt } = stored.meta;
    const { state } = stored;
    const jwks = `${this.baseOf(request)}__ds/jwks.json`;
    const webhook = config.webhookUrl !== undefined && {
      url: config.webhookUrl,
      signing: { alg: "ed25519", kid: await this.keys.kid(project), jwks_url: jwks },
    };
    const nextAttemptAt = state.status === "failed" ? state.wake?.attempt?.nextAt : undefined;
    return {
      id,
      subscription_id: id,
      type: config.type,
      pattern: config.pattern,
      streams: stored.links.map(({ path, link }) => ({ path, link_type: linkType(link), acked_offset: link.acked })),
      webhook: webhook || undefined,
      wake_stream: config.wakeStream,
      lease_ttl_ms: config.leaseMs,
      created_at: new Date(createdAt).toISOString(),
      status: state.status,
      retry_count: state.failures,
      next_attempt_at: nextAttemptAt === undefined ? undefined : new Date(nextAttemptAt).toISOString(),
      description: config.description,
    };
  }

  async list({ project, access }: ListCall, request: HttpRequest): Promise<Reply> {
    const { found, next } = await listPage({
      search: request.search,
      ids: (after, count) => this.wakes.ids(project, after, count),
      describe: async (id) => {
        const stored = await this.wakes.get(project, id);
        if (stored === undefined) return undefined;
        return isWithinReach(access, stored) ? this.shown(project, id, request, stored) : "hidden";
      },
    });
    return json(200, { subscriptions: found, next });
  }

  /** Deleting a subscription that does not exist succeeds. */
  async delete({ project, subscription: id, access }: SubscriptionCall): Promise<Reply> {
    await this.checkReach(project, id, access);
    await this.wakes.delete(project, id);
    return { status: 204, headers: [] };
  }

  async addStreams({ project, subscription: id, access }: SubscriptionCall, request: HttpRequest): Promise<Reply> {
    const paths = await parseAddedStreams(request, this.bodies);
    await demandLinks(access, project, id, paths);
    await this.checkReach(project, id, access);
    const outcome = await this.wakes.addStreams(project, id, paths);
    if (outcome === "absent") throw absent(id);
    if (outcome === "own-wake-stream")
      throw new Refusal("bad-body", "streams must not contain the wake_stream, because each wake would cause the next");
    if (outcome !== "added") throw tooManyLinks(this.settings.limits.links);
    return { status: 204, headers: [] };
  }

  async removeStream({ project, subscription: id, stream, access }: LinkCall): Promise<Reply> {
    await this.checkReach(project, id, access);
    if ((await this.wakes.removeStream(project, id, stream)) === "absent") throw absent(id);
    return { status: 204, headers: [] };
  }

  async claim({ project, subscription: id, access }: SubscriptionCall, request: HttpRequest): Promise<Reply> {
    const worker = await parseWorker(request, this.bodies);
    await this.checkReach(project, id, access);
    const result = await this.wakes.holding.claim(project, id, worker);
    switch (result.kind) {
      case "absent":
        throw absent(id);
      case "wrong-type":
        throw wrongType();
      case "idle":
        throw new Refusal(
          "no-pending-work",
          "every linked stream is acknowledged up to its tail; wait for the next wake",
        );
      case "held":
        throw alreadyClaimed(result.holder, result.generation);
      case "claimed":
        return json(200, {
          wake_id: result.wakeId,
          generation: result.generation,
          token: result.token,
          streams: result.infos.map(describeLink),
          lease_ttl_ms: result.meta.config.leaseMs,
        });
    }
  }

  async ack({ project, subscription: id }: SubscriptionCall, request: HttpRequest, pullOnly: boolean): Promise<Reply> {
    const word = await parseAck(request, this.bodies, parseBearer(request));
    const result = await this.wakes.holding.ack(project, id, word, pullOnly);
    if (result.kind === "acked") return json(200, { ok: true, next_wake: result.nextWake });
    if (result.kind === "bad-ack") throw new Refusal("invalid-offset", result.why);
    throw unproven(result.kind, id);
  }

  async release({ project, subscription: id }: SubscriptionCall, request: HttpRequest): Promise<Reply> {
    const word = await parseRelease(request, this.bodies, parseBearer(request));
    const result = await this.wakes.holding.release(project, id, word);
    if (result.kind === "released") return { status: 204, headers: [] };
    throw unproven(result.kind, id);
  }

  async jwks({ project }: CallTo<typeof KEYS_ADDRESS>): Promise<Reply> {
    const headers: Headers = [
      header.contentType,
      "application/jwk-set+json",
      header.cacheControl,
      "public, max-age=300",
    ];
    return { status: 200, headers, body: JSON.stringify(await this.keys.published(project)) };
  }

  /** A confined caller may use only subscriptions whose streams all lie within its confinement. */
  private async checkReach(project: string, id: string, access: Access): Promise<void> {
    if (!access.isConfined) return;
    const stored = await this.wakes.get(project, id);
    if (stored && !isWithinReach(access, stored)) throw outOfReach(id);
  }

  /** The public URL of the project's streams; ends with a slash. */
  private baseOf(request: HttpRequest): string {
    const streams = "/stream/";
    const path = request.path.slice(0, request.path.indexOf(streams) + streams.length);
    const base = (this.settings.publicUrl ?? linkBase(request)) + path;
    if (base.length <= MAX_BASE_CHARS && URL.canParse(base)) return base;
    throw new Refusal(
      "bad-header",
      "Host does not form a valid URL for callbacks; send a valid Host, or set publicUrl on the server",
    );
  }
}

/**
 * The address names only the subscription. This checks whether the caller may follow and write the streams in the body.
 */
async function demandAll(access: Access, project: string, id: string, config: Config): Promise<void> {
  const { pattern, streams, wakeStream } = config;
  await demandLinks(access, project, id, streams);
  if (pattern !== undefined) {
    const glob = parseGlob(pattern)!;
    await access.demand({ ...LINK, project, subscription: id, pattern: glob });
  }
  if (wakeStream !== undefined) {
    await access.demand({ ...APPEND_TO_STREAM, project, stream: wakeStream });
  }
}

async function demandLinks(access: Access, project: string, id: string, streams: readonly string[]): Promise<void> {
  for (const stream of streams) {
    await access.demand({ ...LINK, project, subscription: id, stream });
  }
}

function isWithinReach(access: Access, { meta, links }: Stored): boolean {
  if (!access.isConfined) return true;
  const { pattern, wakeStream } = meta.config;
  if (pattern !== undefined && !access.seesAll(parseGlob(pattern)!)) return false;
  if (wakeStream !== undefined && !access.sees(wakeStream)) return false;
  return links.every(({ path }) => access.sees(path));
}

function json(status: number, body: object): Reply {
  const headers: Headers = [header.contentType, "application/json", header.cacheControl, "no-store"];
  return { status, headers, body: JSON.stringify(body) };
}
