/**
 * The HTTP routes of pull: its WebSocket, a look at a subscription, and publishes that are too large for a frame. Called by the
 * router.
 *
 * Invariants: a connection counts against the limit of the audience before its first frame, and is drained with it.
 */
import { header } from "@sluice/protocol";
import type { Audience } from "../core/audience.ts";
import { utf8 } from "../core/bytes.ts";
import type { HttpRequest, Reply } from "../core/http.ts";
import { jsonBody } from "../core/json-body.ts";
import { Refusal } from "../core/refusal.ts";
import type { CallTo } from "../core/route.ts";
import type { Socket } from "../core/socket.ts";
import type { PullConnections } from "./connection.ts";
import type { PullService } from "./contract.ts";
import type { PullLimits } from "./defaults.ts";
import { publishBody } from "./frames.ts";

export const PULL_ADDRESS = "/v1/{project}/pull";
export const SUBSCRIPTION_ADDRESS = "/v1/{project}/pull/{subscription}";
export const TOPIC_ADDRESS = "/v1/{project}/topics/{path}";

export class PullRoutes {
  constructor(
    private readonly connections: PullConnections,
    private readonly audience: Audience,
    private readonly service: Pick<PullService, "publish" | "info">,
    private readonly limits: Pick<PullLimits, "publishBytes">,
  ) {}

  pull({ project, access }: CallTo<typeof PULL_ADDRESS>, request: HttpRequest): Reply {
    if (!request.isUpgrade) throw new Refusal("bad-request", "this address is a WebSocket; send an upgrade request");
    const leave = this.audience.enter(project, request);
    const socket = (given: Socket) => this.connections.accept({ project, access }, given, leave);
    return { status: 101, headers: [], socket };
  }

  async info({ project, subscription, access }: CallTo<typeof SUBSCRIPTION_ADDRESS>): Promise<Reply> {
    return json(await this.service.info(project, subscription, access));
  }

  async publish({ project, stream, access }: CallTo<typeof TOPIC_ADDRESS>, request: HttpRequest): Promise<Reply> {
    const { messages } = await jsonBody(request, this.limits.publishBytes, publishBody);
    const messageIds = await this.service.publish(project, stream, messages, access);
    return json({ messageIds });
  }
}

function json(body: object): Reply {
  const headers = [header.contentType, "application/json", header.cacheControl, "no-store"];
  return { status: 200, headers, body: utf8(JSON.stringify(body)) };
}
