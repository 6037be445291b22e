/**
 * Leads a request through the HTTP door: finds its route, identifies the caller, demands what the route needs, and
 * calls the feature. Called by the adapter for every request. Knows no address (features do) and no rule.
 *
 * Invariants: no handler runs before `access.demand` has allowed it. A known caller is admitted without a promise.
 */
import type { Identity } from "../../auth/identity.ts";
import { type Access, FULL_ACCESS, isOpen } from "../../core/action.ts";
import { type Headers, type HttpRequest, perHeaders, type Reply } from "../../core/http.ts";
import type { Call, Names, Route } from "../../core/route.ts";
import type { Feature } from "../../feature.ts";
import { type CookieOrigins, HttpCredentials } from "./credentials.ts";
import { type Approach, type PageRule, refusePage } from "./page-rule.ts";
import { asRefusal, renderRefusal } from "./problem.ts";
import { namesOf, type Place, RouteTree, routeAt } from "./route-tree.ts";

export interface RouterParts {
  readonly features: readonly Feature[];
  readonly identity: Identity;
  /** Which pages may use their visitor's cookie. */
  readonly cookieOrigins: CookieOrigins;
  /** The response headers for OPTIONS, at every address. */
  readonly preflight: Headers;
  readonly pages: PageRule;
}

type Members = NonNullable<Feature["problemMembers"]>;

/** A call while the router fills it in. */
type Draft = { -readonly [K in keyof Call]: Call[K] };

export class Router {
  private readonly tree: RouteTree;
  /** Whether the page of a request may write, and so may read. */
  private readonly mayWrite: (request: HttpRequest) => boolean;

  constructor(private readonly parts: RouterParts) {
    this.tree = new RouteTree(parts.features);
    this.mayWrite = perHeaders((request) => refusePage(parts.pages, approachOf(request, true)) === undefined);
  }

  get features(): readonly Feature[] {
    return this.parts.features;
  }

  /** Whether a GET of this address may wait for events, or stay open. */
  staysOpen(path: string, search: string): boolean {
    try {
      return this.tree.find(path).address?.byMethod.get("GET")?.route.staysOpen?.(search) === true;
    } catch {
      // The name of the project is refused.
      return false;
    }
  }

  /** Whether some route has an address of this path, beyond `/`. */
  owns(path: string): boolean {
    try {
      return path !== "/" && (path.startsWith("/v1/") || this.tree.find(path).address !== undefined);
    } catch {
      // The name of the project is refused.
      return true;
    }
  }

  /** Throws, or rejects with, a Refusal for a foreign page, an unknown address and a caller that is not admitted. */
  route(request: HttpRequest): Promise<Reply> | Reply {
    if (request.method === "OPTIONS") {
      request.route = "preflight";
      return { status: 204, headers: [...this.parts.preflight] };
    }
    if (!this.mayWrite(request)) {
      const refused = refusePage(this.parts.pages, approachOf(request));
      if (refused !== undefined) throw refused;
    }
    const place = this.tree.find(request.path);
    request.project = place.project;
    const members = place.feature?.problemMembers;
    return members === undefined ? this.answer(place, request) : this.answerWith(members, place, request);
  }

  private answer(place: Place, request: HttpRequest): Promise<Reply> | Reply {
    const { route } = routeAt(place, request.method, request.path);
    const call = draftOf(route, place.project, namesOf(place));
    request.route = route.name;
    if (isOpen(route)) return route.handle(call, request);
    const { identity, cookieOrigins } = this.parts;
    const access = identity.identify(place.project, new HttpCredentials(request, cookieOrigins));
    if (access instanceof Promise) return access.then((known) => admit(known, route, call, request));
    return admit(access, route, call, request);
  }

  private async answerWith(members: Members, place: Place, request: HttpRequest): Promise<Reply> {
    try {
      return await this.answer(place, request);
    } catch (fault) {
      const refusal = asRefusal(fault);
      if (refusal === undefined) throw fault;
      return renderRefusal(refusal, members(refusal));
    }
  }
}

function approachOf(request: HttpRequest, isWrite = isWriteOf(request)): Approach {
  return { host: request.header("host"), origin: request.header("origin"), isWrite };
}

function isWriteOf({ method, isUpgrade }: HttpRequest): boolean {
  return isUpgrade === true || (method !== "GET" && method !== "HEAD");
}

function admit(access: Access, route: Route, call: Draft, request: HttpRequest): Promise<Reply> | Reply {
  call.access = access;
  const admitted = access.demand(call);
  return admitted === undefined ? route.handle(call, request) : admitted.then(() => route.handle(call, request));
}

function draftOf({ name, need, bySession }: Route, project: string | undefined, names: Readonly<Names>): Draft {
  const { stream, subscription, channel, session, group } = names;
  return {
    action: name,
    need,
    bySession,
    project,
    access: FULL_ACCESS,
    stream,
    subscription,
    channel,
    session,
    group,
  };
}
