/**
 * A route of the HTTP door as its feature describes it: name, methods, address, need, handler and description. The door matches
 * requests against it and derives `Allow`, the OpenAPI document, CORS headers and the fuzz tests' vocabulary.
 *
 * Invariants: an address uses OpenAPI's notation. A name in braces is one level, except `{path}` at the end, which is all the
 * rest. A literal level wins over a name.
 */
import type { Access, Action, Need, Permission } from "./action.ts";
import type { Description } from "./describe.ts";
import type { HttpRequest, Reply } from "./http.ts";

/**
 * A request on its way to its handler: the names in its address, and the caller's access. All requests share one object shape,
 * because that is faster.
 */
export interface Call extends Action {
  readonly bySession: Permission["bySession"];
  readonly access: Access;
  readonly stream: string | undefined;
  readonly subscription: string | undefined;
  readonly channel: string | undefined;
  readonly session: string | undefined;
  readonly group: string | undefined;
}

/** The names that an address may fill in. */
export type Names = {
  -readonly [N in "stream" | "subscription" | "channel" | "session" | "group"]: string | undefined;
};

export type Handler<C = Call> = (call: C, request: HttpRequest) => Promise<Reply> | Reply;

export interface Route {
  /** Also the name of the action in auth, logs and metrics. */
  readonly name: string;
  readonly methods: readonly string[];
  readonly address: string;
  readonly need: Need;
  readonly bySession?: Permission["bySession"];
  readonly handle: Handler;
  /** Whether the answer to a GET with this query may wait for events, or stay open. */
  readonly staysOpen?: ((search: string) => boolean) | undefined;
  readonly describe: Description;
}

/** A name in braces: its meaning, and how its percent-encoded text is read. */
export interface AddressName {
  readonly says: string;
  /** Throws a Refusal if the text is malformed. */
  read(encoded: string, names: Names): void;
}

type BracedIn<A extends string> = A extends `${string}{${infer N}}${infer Rest}` ? N | BracedIn<Rest> : never;
type Filled<N extends string> = N extends "path" ? "stream" : N;

/** A call to an address: every name in its braces is set. */
export type CallTo<A extends string> = Call & { readonly [N in Filled<BracedIn<A>>]: string };

/** Types the handler by the address, so that it may rely on the names in it. */
export function route<const A extends string>(
  row: Omit<Route, "address" | "handle"> & { readonly address: A; readonly handle: Handler<CallTo<A>> },
): Route {
  return row as Route;
}

export const READING: readonly string[] = ["GET", "HEAD"];
