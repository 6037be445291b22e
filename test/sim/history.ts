/**
 * The calls and answers of clients, in order: the only input of the checkers. The clients of a scenario write it.
 *
 * Invariants: it holds no internal state of the server. A call took effect, if at all, between its invocation and its
 * return. A call of unknown outcome may take effect at any time after its invocation, or never.
 */
import type { Position } from "@sluice/protocol";

/** `tick` orders all events of a run; `ms` is the simulated time, for rules that depend on time. */
export interface Stamp {
  readonly tick: number;
  readonly ms: number;
}

export interface Retention {
  readonly maxMessages?: number | undefined;
  readonly maxBytes?: number | undefined;
  readonly maxAgeSeconds?: number | undefined;
}

export interface Create {
  readonly kind: "create";
  readonly path: string;
  readonly contentType: string;
  /** The messages in the body. A fork always has one, so that it can be told from its source. */
  readonly ids: readonly string[];
  readonly closed: boolean;
  readonly ttlSeconds?: number | undefined;
  readonly retention?: Retention | undefined;
  readonly fork?: { readonly source: string; readonly at: Position } | undefined;
}

export interface Triple {
  readonly id: string;
  readonly epoch: number;
  readonly seq: number;
}

/** Without ids it only closes. Repetitions of one append share their ids and have a producer; no other appends share ids. */
export interface Append {
  readonly kind: "append";
  readonly path: string;
  readonly ids: readonly string[];
  readonly close: boolean;
  readonly seq?: string | undefined;
  readonly producer?: Triple | undefined;
}

/** `from` is what the client asked for: a position, or the word it sent. A frame of an SSE connection is a read as well. */
export interface Read {
  readonly kind: "read";
  readonly path: string;
  readonly from: Position | "-1" | "now";
  readonly mode: "catch-up" | "long-poll" | "sse";
  readonly format: "raw" | "envelope";
}

export interface Simple {
  readonly kind: "delete" | "head";
  readonly path: string;
}

export interface List {
  readonly kind: "list";
  readonly path: "";
}

export type Operation = Create | Append | Read | Simple | List;

export interface Listed {
  readonly path: string;
  readonly next: Position;
  readonly closed: boolean;
}

export interface Done {
  readonly kind: "done";
  readonly status: number;
  readonly next?: Position | undefined;
  readonly closed: boolean;
  readonly upToDate: boolean;
  /** The messages that a read returned. */
  readonly ids?: readonly string[] | undefined;
  /** The offset of each message, where the format includes it. */
  readonly offsets?: readonly Position[] | undefined;
  /** The highest sequence that the server reports for this producer. */
  readonly producerSeq?: number | undefined;
  readonly listed?: readonly Listed[] | undefined;
}

/** The server refused, with a code of the error table. */
export interface Refused {
  readonly kind: "refused";
  readonly status: number;
  readonly code: string;
  readonly next?: Position | undefined;
  readonly earliest?: Position | undefined;
  readonly expectedSeq?: number | undefined;
}

/** `unknown`: no answer, or one that leaves the outcome open. `unsent`: the server was not reached. */
export type Result = Done | Refused | { readonly kind: "unknown"; readonly why: string } | { readonly kind: "unsent" };

export interface Call<O extends Operation = Operation> {
  readonly number: number;
  readonly client: string;
  readonly op: O;
  readonly invoked: Stamp;
  /** Undefined while the call is open, and forever when its outcome is unknown. */
  returned: Stamp | undefined;
  result: Result;
}

/** What the audit after the run found at a path: every message from the earliest on. */
export type Final =
  | { readonly kind: "live"; readonly next: Position; readonly closed: boolean; readonly ids: readonly string[] }
  | { readonly kind: "absent" }
  | { readonly kind: "gone" };

const OPEN: Result = { kind: "unknown", why: "still open" };

export class History {
  readonly calls: Call[] = [];
  readonly finals = new Map<string, Final>();
  /** Payload bytes by message. */
  readonly sizes = new Map<string, number>();
  private ticks = 0;

  constructor(private readonly now: () => number) {}

  stamp(): Stamp {
    return { tick: ++this.ticks, ms: this.now() };
  }

  begin<O extends Operation>(client: string, op: O, invoked = this.stamp()): Call<O> {
    const call: Call<O> = { number: this.calls.length + 1, client, op, invoked, returned: undefined, result: OPEN };
    this.calls.push(call);
    return call;
  }

  end(call: Call, result: Result): void {
    const returned = this.stamp();
    call.result = result;
    // A call of unknown outcome has no end, because its effect may still come.
    if (result.kind !== "unknown") call.returned = returned;
  }
}

/** One line for the log and for reports. */
export function show(call: Call): string {
  const { op, invoked, returned, result } = call;
  const interval = `${invoked.tick}-${returned?.tick ?? ""}`;
  return `#${call.number} ${call.client} [${interval}] ${showOperation(op)} -> ${showResult(result)}`;
}

function showOperation(op: Operation): string {
  const { kind, path, ...rest } = op;
  return `${kind} ${path} ${showFields(rest)}`;
}

function showResult({ kind, ...rest }: Result): string {
  return `${kind} ${showFields(rest)}`;
}

function showFields(fields: object): string {
  const shown = Object.entries(fields).filter(([, value]) => value !== undefined && value !== false);
  return shown.map(([name, value]) => `${name}=${showValue(value)}`).join(" ");
}

function showValue(value: unknown): string {
  if (isPosition(value)) return showPosition(value);
  if (Array.isArray(value)) return `[${value.map(showValue).join(" ")}]`;
  if (typeof value === "object" && value !== null) return `{${showFields(value)}}`;
  return String(value);
}

function isPosition(value: unknown): value is Position {
  return typeof value === "object" && value !== null && "generation" in value && "seq" in value;
}

/** Generations start at the time of the first boot, so this shows the distance from it. */
export function showPosition({ generation, seq }: Position): string {
  return `${generation % 1_000_000}_${seq}`;
}
