/** What a live session takes and tells: options of subscriptions and presence, statuses, events. */
import { BEGINNING } from "@sluice/protocol";
import type { SluiceError } from "../error.ts";
import type { StreamMessage } from "../message.ts";
import { wrong } from "../options.ts";
import type { Gap } from "../read-options.ts";
import type { CatchUp, CursorUser, SubscriptionEnd } from "./cursor.ts";

/**
 * `connecting`: a connection is being opened. `catching-up`: it is open, and some handler has not read everything yet. `live`: every
 * handler has everything. `offline`: there is no connection; the session tries again by itself unless it was closed.
 */
export type LiveStatus = "connecting" | "catching-up" | "live" | "offline";

export interface LiveEvents {
  status: LiveStatus;
  error: SluiceError;
  /** A handler has caught up: after each subscription, and after each reconnect. */
  "catch-up": CatchUp & { readonly stream: string };
}

export interface PresenceOptions {
  /** A small JSON value that the others see, at most 1 KiB. */
  readonly state?: unknown;
}

export interface LiveSubscribeOptions extends PresenceOptions {
  /**
   * `beginning` (the oldest kept message), `now`, or the `offset` of the last message that the caller has. By default where the
   * session stopped.
   */
  readonly from?: "beginning" | "now" | (string & {}) | undefined;
  /** Shows the session on the stream for as long as the subscription lasts. */
  readonly presence?: boolean | undefined;
  /** Messages are lost: trimmed by retention, or by a failover. Called in their place, before the messages behind them. */
  readonly onGap?: ((gap: Gap) => unknown) | undefined;
  /** The handler has caught up, and how. */
  readonly onCatchUp?: ((how: CatchUp) => unknown) | undefined;
  /** The subscription has ended by itself. */
  readonly onEnd?: ((end: SubscriptionEnd) => unknown) | undefined;
}

export interface LiveSubscription {
  readonly stream: string;
  /** The offset of the last message that the handler has finished; undefined before the first answer. */
  readonly offset: string | undefined;
  /** Calls the handler no more. */
  unsubscribe(): void;
}

type Handler = (message: StreamMessage<unknown>) => unknown;

/** The caller's functions as a cursor calls them. Throws a TypeError for a wrong option. */
export function userOf(handler: Handler, options: LiveSubscribeOptions, caughtUp: (how: CatchUp) => void) {
  const { from, onGap, onCatchUp, onEnd } = options;
  if (typeof handler !== "function") throw wrong("the handler", "a function", handler);
  for (const [name, hook] of Object.entries({ onGap, onCatchUp, onEnd })) {
    if (hook !== undefined && typeof hook !== "function") throw wrong(name, "a function", hook);
  }
  if (from !== undefined && (typeof from !== "string" || from === "")) {
    throw wrong("from", '"beginning", "now" or an offset', from);
  }
  const user: CursorUser<unknown> = {
    message: handler,
    gap: (gap) => onGap?.(gap),
    ended: (end) => onEnd?.(end),
    caughtUp: (how) => {
      caughtUp(how);
      return onCatchUp?.(how);
    },
  };
  return { user, from: from === "beginning" ? BEGINNING : from };
}
