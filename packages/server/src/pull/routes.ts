/**
 * The HTTP route of pull: its WebSocket. Called by the router.
 *
 * Invariants: a connection counts against the limit of the audience before its first frame, and is drained with it.
 */
import type { Audience } from "../core/audience.ts";
import type { HttpRequest, Reply } from "../core/http.ts";
import { Refusal } from "../core/refusal.ts";
import type { CallTo } from "../core/route.ts";
import type { Socket } from "../core/socket.ts";
import type { PullConnections } from "./connection.ts";

export const PULL_ADDRESS = "/v1/{project}/pull";

export class PullRoutes {
  constructor(
    private readonly connections: PullConnections,
    private readonly audience: Audience,
  ) {}

  pull({ project, access }: CallTo<typeof PULL_ADDRESS>, request: HttpRequest): Reply {
    if (!request.isUpgrade) throw new Refusal("bad-request", "this address is a WebSocket; send an upgrade request");
    const leave = this.audience.enter(project, request);
    const socket = (given: Socket) => this.connections.accept({ project, access }, given, leave);
    return { status: 101, headers: [], socket };
  }
}
