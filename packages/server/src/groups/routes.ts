/**
 * The HTTP routes of groups: the consume socket and the admin routes. Parse, call the service, render. Called by the router.
 *
 * Invariants: a connection counts against the limit of the audience before its first frame, and is drained with it. A caller that
 * is confined to some streams sees only groups whose filter lies within them.
 */
import { formatOffset, header } from "@sluice/protocol";
import type { Audience } from "../core/audience.ts";
import { hex, isLonger } from "../core/bytes.ts";
import { type Headers, type HttpRequest, queryValue, type Reply } from "../core/http.ts";
import { jsonBody } from "../core/json-body.ts";
import { Refusal } from "../core/refusal.ts";
import type { CallTo } from "../core/route.ts";
import type { Socket } from "../core/socket.ts";
import type { World } from "../core/world.ts";
import { choice, declaration, mode as modeSchema, move } from "./bodies.ts";
import type { ConsumeConnections } from "./connection.ts";
import type { GroupLimits } from "./defaults.ts";
import type { GroupInfo } from "./info.ts";
import type { Groups } from "./service.ts";
import { type GroupName, groupName, type Mode } from "./topic.ts";

export const CONSUME_ADDRESS = "/v1/{project}/consume";
export const GROUPS_ADDRESS = "/v1/{project}/groups";
export const GROUP_ADDRESS = "/v1/{project}/groups/{group}";
export const SEEK_ADDRESS = "/v1/{project}/groups/{group}/seek";
export const REDRIVE_ADDRESS = "/v1/{project}/groups/{group}/redrive";

type ProjectCall = CallTo<typeof CONSUME_ADDRESS>;
type GroupCall = CallTo<typeof GROUP_ADDRESS>;

export interface GroupRouteParts {
  readonly groups: Groups;
  readonly connections: ConsumeConnections;
  readonly audience: Audience;
  readonly world: Pick<World, "randomBytes">;
  readonly limits: Pick<GroupLimits, "bodyBytes">;
}

const MAX_MEMBER_BYTES = 256;
const MEMBER_BYTES = 8;
const MAX_PAGE = 1_000;

export class GroupRoutes {
  constructor(private readonly parts: GroupRouteParts) {}

  consume({ project, access }: ProjectCall, request: HttpRequest): Reply {
    const { connections, audience, world } = this.parts;
    const asked = queryValue(request.search, "member") ?? "";
    if (isLonger(asked, MAX_MEMBER_BYTES)) {
      throw new Refusal("bad-query", `the query parameter member may have at most ${MAX_MEMBER_BYTES} bytes`);
    }
    if (!request.isUpgrade) throw new Refusal("bad-request", "this address is a WebSocket; send an upgrade request");
    const leave = audience.enter(project, request);
    const member = asked === "" ? hex(world.randomBytes(MEMBER_BYTES)) : asked;
    const socket = (given: Socket) => connections.accept({ project, member, access }, given, leave);
    return { status: 101, headers: [], socket };
  }

  async list({ project, access }: ProjectCall, { search }: HttpRequest): Promise<Reply> {
    const limit = limitOf(queryValue(search, "limit"));
    return json(await this.parts.groups.list(project, queryValue(search, "after") ?? "", limit, access));
  }

  async get({ project, group, access }: GroupCall, { search }: HttpRequest): Promise<Reply> {
    const which = { mode: modeOf(queryValue(search, "mode")), filter: queryValue(search, "filter") };
    const name = await this.parts.groups.find(project, group, which, access);
    return json(infoBody(await this.parts.groups.info(project, name)));
  }

  async put({ project, group, access }: GroupCall, request: HttpRequest): Promise<Reply> {
    const { groups, limits } = this.parts;
    const { filter, mode, from, ...config } = await jsonBody(request, limits.bodyBytes, declaration);
    const name = groupName(mode, group, filter);
    if ((config.maxAttempts === undefined) !== (config.deadLetter === undefined)) {
      throw new Refusal("bad-body", "maxAttempts and deadLetter must be given together");
    }
    groups.demandFilter(name, access);
    if (config.deadLetter !== undefined) groups.demandDeadLetter(name, config.deadLetter, access);
    const { kind } = await groups.put(project, name, from ?? { kind: "latest" }, config);
    if (kind === "differs")
      throw new Refusal(
        "group-differs",
        "the group has another leaseMs, maxAttempts or deadLetter; send its own values, or delete the group first",
      );
    return json({ ...name }, kind === "created" ? 201 : 200);
  }

  async seek({ project, group, access }: GroupCall, request: HttpRequest): Promise<Reply> {
    const { to, ...which } = await jsonBody(request, this.parts.limits.bodyBytes, move);
    const name = await this.parts.groups.find(project, group, which, access);
    await this.parts.groups.seek(project, name, to);
    return { status: 204, headers: [] };
  }

  async redrive({ project, group, access }: GroupCall, request: HttpRequest): Promise<Reply> {
    const which = await jsonBody(request, this.parts.limits.bodyBytes, choice);
    const name = await this.parts.groups.find(project, group, which, access);
    return json(await this.parts.groups.redrive(project, name, access));
  }

  async delete({ project, group, access }: GroupCall, { search }: HttpRequest): Promise<Reply> {
    const which = { mode: modeOf(queryValue(search, "mode")), filter: queryValue(search, "filter") };
    const name = await this.parts.groups.find(project, group, which, access);
    await this.parts.groups.delete(project, name);
    return { status: 204, headers: [] };
  }
}

function modeOf(text: string | undefined): Mode | undefined {
  if (text === undefined) return undefined;
  const parsed = modeSchema.safeParse(text);
  if (!parsed.success) throw new Refusal("bad-query", "the query parameter mode must be share or queue");
  return parsed.data;
}

function limitOf(text: string | undefined): number {
  if (text === undefined) return MAX_PAGE;
  const limit = Number(text);
  if (!/^\d{1,9}$/.test(text) || limit < 1 || limit > MAX_PAGE) {
    throw new Refusal("bad-query", `the query parameter limit must be a number from 1 to ${MAX_PAGE}`);
  }
  return limit;
}

function infoBody({ name, source, leader, members, streams, isCut, ...sums }: GroupInfo): object {
  return {
    ...nameBody(name),
    source,
    leader,
    members,
    streams: streams.map(({ progress, tail, ...rest }) => ({
      ...rest,
      progress: formatOffset(progress),
      tail: formatOffset(tail),
    })),
    ...sums,
    ...(isCut && { isCut }),
  };
}

function nameBody({ group, mode, filter }: GroupName): object {
  return { group, mode, filter };
}

function json(value: object, status = 200): Reply {
  const headers: Headers = [header.contentType, "application/json", header.cacheControl, "no-store"];
  return { status, headers, body: JSON.stringify(value) };
}
