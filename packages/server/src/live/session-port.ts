/**
 * What Live needs of sessions: their life and ownership. Pointers are rows of the session's own entity, so that a session and
 * what its tab follows end in one commit. Compose passes the session service as this port.
 *
 * Invariants: no rule of Live runs on a session that is over or that the caller may not use.
 */
import type { Access } from "../core/action.ts";
import type { Entity, RowKey } from "../engine/contract.ts";
import type { Rule } from "../engine/keeper.ts";

/** The caller, as far as ownership of a session depends on it. */
export type Asker = Pick<Access, "subject" | "isAdmin">;

export interface Used<O> {
  readonly outcome: O;
  readonly owner: string | undefined;
  readonly incarnation: string;
  /** Epoch ms. */
  readonly expiresAt: number;
}

export interface SessionPort {
  entity(project: string, session: string): Entity;
  /** Creates the caller's session if it does not exist. */
  open(
    project: string,
    session: string,
    asker: Asker,
  ): Promise<
    | { readonly kind: "open"; readonly isNew: boolean; readonly expiresAt: number }
    | { readonly kind: "anothers" | "over" }
  >;
  /**
   * Runs a rule on rows of the session; undefined if the caller has no such session. It counts as a use of the session, unless
   * it is the server's own work.
   */
  use<O>(
    project: string,
    session: string,
    asker: Asker | "server",
    keys: readonly RowKey[],
    rule: Rule<O>,
  ): Promise<Used<O> | undefined>;
  /** Runs the task before an ended session is removed, until it succeeds. */
  onEnding(task: (project: string, session: string, incarnation: string) => Promise<void>): void;
}
