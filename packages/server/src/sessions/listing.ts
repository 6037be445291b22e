/** `GET /v1/{project}/sessions`: lists the sessions of a project page by page, for admins. Called by the routes. */
import { type ListingPage, listPage } from "../core/entity-listing.ts";
import type { Sessions } from "./service.ts";
import type { Asker } from "./session-rules.ts";

export interface ListedSession {
  readonly sessionId: string;
  readonly expiresAt: number;
  /** How many streams are copied into its inbox. */
  readonly subscriptions: number;
}

export function listSessions(
  sessions: Sessions,
  project: string,
  asker: Asker,
  search: string,
): Promise<ListingPage<ListedSession>> {
  return listPage({
    search,
    ids: (after, count) => sessions.ids(project, after, count),
    describe: async (sessionId) => {
      const info = await sessions.get(project, sessionId, asker);
      return info && { sessionId, expiresAt: info.expiresAt, subscriptions: info.subscriptions.length };
    },
  });
}
