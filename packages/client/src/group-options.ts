/**
 * The options of a group, checked. `Sluice.group` calls it before it loads the rest of the groups part.
 *
 * Invariants: a wrong option is refused with a TypeError before any request is sent. A member keeps its name across reconnects.
 */
import { countOption, numberOption, socketOption, wrong } from "./options.ts";
import { randomId } from "./random-id.ts";
import type { SocketClass } from "./text-socket.ts";

/** `share`: members get whole streams, in order. `queue`: members get single messages, under leases. */
export type GroupMode = "share" | "queue";

/** `earliest`, `latest`, an offset, or a time in epoch milliseconds. */
export type GroupStart = "earliest" | "latest" | (string & {}) | number;

export type GroupEvent =
  /** The member takes part: for the first time, or again after a lost connection. */
  | { readonly type: "connected" }
  /** What was delivered and not confirmed will be delivered again, perhaps to another member. */
  | { readonly type: "disconnected"; readonly error: unknown }
  /** `revoking`: the member finishes what it has of the stream. `revoked`: another member may have it. */
  | { readonly type: "granted" | "revoking" | "revoked"; readonly stream: string }
  /** Retention or a failover took the messages between these offsets before the group processed them. */
  | { readonly type: "gap"; readonly stream: string; readonly after: string; readonly through: string };

export interface GroupOptions {
  /** `share` by default. */
  readonly mode?: GroupMode | undefined;
  /** The name of this member. A member that returns under its name gets its streams back. Made up by default. */
  readonly member?: string | undefined;
  /** Where the group begins, if it does not exist yet; `latest` by default. */
  readonly from?: GroupStart | undefined;
  /** How many messages the member takes unacknowledged; 100 by default. */
  readonly credit?: number | undefined;
  /** How long the server may be away before consuming fails; it never does by default. */
  readonly giveUpMs?: number | undefined;
  readonly onEvent?: ((event: GroupEvent) => void) | undefined;
  /** A WebSocket class for a platform without one, like that of the package `ws`. */
  readonly WebSocket?: SocketClass | undefined;
}

export interface GroupSettings extends Omit<GroupOptions, "WebSocket"> {
  readonly name: string;
  /** Undefined: the server knows the group by its name alone. */
  readonly filter: string | undefined;
  readonly member: string;
  readonly Socket: SocketClass | undefined;
}

export function groupSettings(name: string, filter: string | undefined, options: GroupOptions): GroupSettings {
  const { WebSocket, member = randomId(), ...rest } = options;
  const { mode = "share", onEvent = countOption, credit, giveUpMs } = rest;
  for (const [option, value] of Object.entries({ name, filter: filter ?? name, member })) {
    if (typeof value !== "string" || value === "") throw wrong(option, "a text", value);
  }
  if (/[/+#]/.test(name)) throw wrong("name", "without /, + and #", name);
  if (!["share", "queue"].includes(mode)) throw wrong("mode", "share or queue", mode);
  if (typeof onEvent !== "function") throw wrong("onEvent", "a function", onEvent);
  countOption("credit", credit, 1, 1);
  numberOption("giveUpMs", giveUpMs, 0);
  return { ...rest, name, filter, member, Socket: socketOption(WebSocket) };
}
