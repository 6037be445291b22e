/**
 * What the programs of the manual take for granted: a client, functions of the reader's application, and the end of loops that
 * run until they are stopped. Generated modules (`programs.ts`) import every name from here; a page may declare its own instead.
 *
 * Invariants: a block's `signal` aborts, and a page's groups close, after the application got its first message.
 */
import { Sluice as Client, type Group, type GroupOptions } from "@sluice/client";
import { createServer as create, type RunningServer, type ServerOptions } from "@sluice/server";
import { PubSub as InProcessPubSub } from "@sluice/server/pubsub";
import { WebSocket } from "ws";

export interface Order {
  readonly item: string;
}
export interface Mail {
  readonly to: string;
}
export interface Edit {
  readonly op: "insert" | "delete";
  readonly at?: number;
}

let url = "";
let ends: (() => unknown)[] = [];
let closings: (() => Promise<unknown>)[] = [];
/** What the application of the page was given, and what it printed. */
export let seen: unknown[] = [];

export const address = (): string => url;

/** Called by the test before the first block of a page. */
export function beginPage(server: string): void {
  url = server;
  ends = [];
  closings = [];
  seen = [];
  sluice = new Sluice({ url });
}

/** Called by the test after the last block of a page. */
export async function endPage(): Promise<void> {
  stop();
  for (const close of closings.reverse()) await close();
}

function stop(): void {
  for (const end of ends.splice(0)) void end();
}

/** Every function of the application: remembers what it got, and lets endless loops end. */
function got(...values: unknown[]): void {
  seen.push(...values);
  setImmediate(stop);
}

/** A signal of its own for each block. */
export function newSignal(): AbortSignal {
  const stopping = new AbortController();
  ends.push(() => stopping.abort());
  return stopping.signal;
}

class RecordingClient extends Client {
  constructor(options: ConstructorParameters<typeof Client>[0]) {
    super(options);
    closings.push(() => this.close());
  }

  override group<T>(name: string, filter?: string, options: GroupOptions = {}): Group<T> {
    const group = super.group<T>(name, filter, { WebSocket: WebSocket as never, ...options });
    ends.push(() => group.close());
    return group;
  }
}
export const Sluice = RecordingClient as unknown as typeof Client;
export type Sluice = Client;
export let sluice: Client;

export async function createServer({ data: _, ...options }: ServerOptions = {}): Promise<RunningServer> {
  const server = await create({ log: false, ...options, memory: true, port: 0 });
  closings.push(() => server.close());
  return server;
}

export class PubSub extends InProcessPubSub {
  constructor(...args: ConstructorParameters<typeof InProcessPubSub>) {
    super(...args);
    closings.push(() => this.close());
  }
}

export const console = { log: got, warn: got, error: got };
export const process = { once: (_signal: string, end: () => unknown) => void ends.push(end) };
export const [show, badge, draw, hideSpinner, reloadSnapshot] = [got, got, got, got, got];
export const apply = (edit: unknown): void => got(edit);
export const bill = async (order: unknown): Promise<void> => got(order);
export const send = async (mail: unknown): Promise<void> => got(mail);
export const file = { write: async (bytes: Uint8Array): Promise<void> => got(bytes) };
export const snapshot: { readonly offset: string | undefined } = { offset: undefined };
export const events: readonly Edit[] = [{ op: "insert" }, { op: "delete" }];
export const id = "answer-1";
export const attemptNumber = 2;
export async function* model(): AsyncGenerator<string> {
  yield* ["Hel", "lo"];
}
export const secret = "a secret of thirty-two characters";
export const newSecret = secret;
export const oldSecret = "another secret of thirty-two chars";
export const userOf = async (
  cookie: string | undefined,
): Promise<{ readonly id: string; readonly tenant: string } | undefined> =>
  cookie === undefined ? undefined : { id: cookie, tenant: "default" };
