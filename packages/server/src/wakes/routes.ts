/**
 * Wake subscriptions over the request/reply shape: parse, call the service, render. One address, one function.
 *
 *   subscriptions/{id}                  PUT GET DELETE
 *   subscriptions/{id}/streams          POST
 *   subscriptions/{id}/streams/{path}   DELETE
 *   subscriptions/{id}/{claim|ack|release|callback}   POST
 *   jwks.json                           GET
 */
import { header } from "@sluice/protocol";
import { type Headers, type HttpRequest, Refusal, type Reply } from "../core/http.ts";
import type { SigningKeys } from "./keys.ts";
import type { WakeLimits } from "./limits.ts";
import {
  parseAck,
  parseAddedStreams,
  parseBearer,
  parseConfig,
  parseId,
  parseRelease,
  parseStreamPart,
  parseWorker,
} from "./parse.ts";
import { absent, alreadyClaimed, renderRefusal, tooMany, unproven, wrongType } from "./refusals.ts";
import type { Stored, Wakes } from "./service.ts";
import { describeLink, linkType } from "./state.ts";

export interface WakeRouteSettings {
  /** Whether webhooks may be plain http to this machine. */
  readonly allowLoopback: boolean;
  /** Scheme, host and port under which receivers reach us; what the creator addressed, if undefined. */
  readonly publicUrl?: string | undefined;
  readonly limits: WakeLimits;
}

const MAX_BASE_CHARS = 1_024;

export class WakeRoutes {
  constructor(
    private readonly wakes: Wakes,
    private readonly keys: SigningKeys,
    private readonly settings: WakeRouteSettings,
  ) {}

  /** `rest` is what follows `__ds/`, still percent-encoded. */
  async handle(project: string, rest: string, request: HttpRequest): Promise<Reply> {
    try {
      return await this.dispatch(project, rest, request);
    } catch (fault) {
      const reply = renderRefusal(fault);
      if (reply) return reply;
      throw fault;
    }
  }

  private dispatch(project: string, rest: string, request: HttpRequest): Promise<Reply> {
    if (rest === "jwks.json") {
      onlyMethods(request, ["GET", "HEAD"]);
      return this.jwks(project);
    }
    const [word, encodedId, action, ...path] = rest.split("/");
    if (word !== "subscriptions" || encodedId === undefined) throw noRoute(request);
    const id = parseId(encodedId);
    if (action === undefined) return this.base(project, id, request);
    if (action === "streams" && path.length > 0) {
      onlyMethods(request, ["DELETE"]);
      return this.removeStream(project, id, parseStreamPart(path.join("/")));
    }
    if (path.length > 0) throw noRoute(request);
    return this.act(project, id, action, request);
  }

  private base(project: string, id: string, request: HttpRequest): Promise<Reply> {
    switch (request.method) {
      case "PUT":
        return this.put(project, id, request);
      case "GET":
      case "HEAD":
        return this.get(project, id, request);
      case "DELETE":
        return this.delete(project, id);
      default:
        throw notAllowed(request, ["PUT", "GET", "HEAD", "DELETE"]);
    }
  }

  private act(project: string, id: string, action: string, request: HttpRequest): Promise<Reply> {
    const actions: Record<string, () => Promise<Reply>> = {
      streams: () => this.addStreams(project, id, request),
      claim: () => this.claim(project, id, request),
      ack: () => this.ack(project, id, request, true),
      callback: () => this.ack(project, id, request, false),
      release: () => this.release(project, id, request),
    };
    const act = Object.hasOwn(actions, action) ? actions[action] : undefined;
    if (act === undefined) throw noRoute(request);
    onlyMethods(request, ["POST"]);
    return act();
  }

  private async put(project: string, id: string, request: HttpRequest): Promise<Reply> {
    const config = await parseConfig(request, this.settings.allowLoopback, this.settings.limits);
    const result = await this.wakes.put(project, id, config, this.baseOf(request));
    switch (result.kind) {
      case "created":
      case "exists":
        return this.show(project, id, request, result.stored, result.kind === "created" ? 201 : 200);
      case "differs":
        throw new Refusal("subscription-already-exists", `the subscription ${id} exists with another configuration`);
      default:
        throw tooMany(result.kind, this.settings.limits.links);
    }
  }

  private async get(project: string, id: string, request: HttpRequest): Promise<Reply> {
    const stored = await this.wakes.get(project, id);
    if (stored === undefined) throw absent(id);
    return this.show(project, id, request, stored, 200);
  }

  private async show(
    project: string,
    id: string,
    request: HttpRequest,
    stored: Stored,
    status: number,
  ): Promise<Reply> {
    const { config, createdAt } = stored.meta;
    const { state } = stored;
    const jwks = `${this.baseOf(request)}__ds/jwks.json`;
    const webhook = config.webhookUrl !== undefined && {
      url: config.webhookUrl,
      signing: { alg: "ed25519", kid: await this.keys.kid(project), jwks_url: jwks },
    };
    const nextAttemptAt = state.status === "failed" ? state.wake?.attempt?.nextAt : undefined;
    return json(status, {
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
    });
  }

  /** Deleting what is not there is fine: it is gone either way. */
  private async delete(project: string, id: string): Promise<Reply> {
    await this.wakes.delete(project, id);
    return { status: 204, headers: [] };
  }

  private async addStreams(project: string, id: string, request: HttpRequest): Promise<Reply> {
    const paths = await parseAddedStreams(request, this.settings.limits);
    const outcome = await this.wakes.addStreams(project, id, paths);
    if (outcome === "absent") throw absent(id);
    if (outcome === "own-wake-stream") throw new Refusal("bad-body", "streams must not hold the wake_stream");
    if (outcome !== "added") throw tooMany(outcome, this.settings.limits.links);
    return { status: 204, headers: [] };
  }

  private async removeStream(project: string, id: string, path: string): Promise<Reply> {
    if ((await this.wakes.removeStream(project, id, path)) === "absent") throw absent(id);
    return { status: 204, headers: [] };
  }

  private async claim(project: string, id: string, request: HttpRequest): Promise<Reply> {
    const worker = await parseWorker(request, this.settings.limits);
    const result = await this.wakes.holding.claim(project, id, worker);
    switch (result.kind) {
      case "absent":
        throw absent(id);
      case "wrong-type":
        throw wrongType();
      case "idle":
        throw new Refusal("no-pending-work", "every linked stream is acknowledged up to its tail");
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

  private async ack(project: string, id: string, request: HttpRequest, pullOnly: boolean): Promise<Reply> {
    const word = await parseAck(request, parseBearer(request), this.settings.limits);
    const result = await this.wakes.holding.ack(project, id, word, pullOnly);
    if (result.kind === "acked") return json(200, { ok: true, next_wake: result.nextWake });
    if (result.kind === "bad-ack") throw new Refusal("invalid-offset", result.why);
    throw unproven(result.kind, id);
  }

  private async release(project: string, id: string, request: HttpRequest): Promise<Reply> {
    const word = await parseRelease(request, parseBearer(request), this.settings.limits);
    const result = await this.wakes.holding.release(project, id, word);
    if (result.kind === "released") return { status: 204, headers: [] };
    throw unproven(result.kind, id);
  }

  private async jwks(project: string): Promise<Reply> {
    const headers: Headers = [
      header.contentType,
      "application/jwk-set+json",
      header.cacheControl,
      "public, max-age=300",
    ];
    return { status: 200, headers, body: JSON.stringify(await this.keys.published(project)) };
  }

  /** Where the project's streams are, seen from outside; ends with a slash. */
  private baseOf(request: HttpRequest): string {
    const streams = "/stream/";
    const path = request.path.slice(0, request.path.indexOf(streams) + streams.length);
    const base = (this.settings.publicUrl ?? request.origin) + path;
    if (base.length <= MAX_BASE_CHARS && URL.canParse(base)) return base;
    throw new Refusal("bad-header", "Host does not make an address that links back to us could use");
  }
}

function json(status: number, body: object): Reply {
  const headers: Headers = [header.contentType, "application/json", header.cacheControl, "no-store"];
  return { status, headers, body: JSON.stringify(body) };
}

function noRoute(request: HttpRequest): Refusal {
  return new Refusal("no-route", `there is nothing at ${request.path}`);
}

function onlyMethods(request: HttpRequest, methods: readonly string[]): void {
  if (!methods.includes(request.method)) throw notAllowed(request, methods);
}

function notAllowed(request: HttpRequest, methods: readonly string[]): Refusal {
  const allowed = [...methods, "OPTIONS"].join(", ");
  return new Refusal("method-not-allowed", `${request.method} is not known here`, [header.allow, allowed]);
}
