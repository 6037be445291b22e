/**
 * The same bytes to two servers, one with the lane and one without: what they answer, what becomes of the connection, and what is
 * stored are the same. Requests are plain, odd, damaged, pipelined and cut into pieces at random.
 */
import { connect, type Socket } from "node:net";
import { createServer, type RunningServer } from "@sluice/server";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Random } from "../sim/random.ts";
import { sleep } from "../support/eventually.ts";
import { conversation } from "./lane/requests.ts";
import { normalized } from "./lane/responses.ts";

const CASES = process.env.SLUICE_DEEP === "1" ? 100_000 : 400;
const AT_ONCE = 25;
/** How long the two may differ, on a machine that is busy. */
const PATIENCE_MS = 10_000;
/**
 * Turns of the event loop without a byte after which the answers count as all. Clients and servers share the loop, so a busy
 * machine needs no more of them.
 */
const SILENT_TURNS = 20;

let servers: RunningServer[];

beforeAll(async () => {
  const open = (lane: boolean) =>
    createServer({
      memory: true,
      port: 0,
      log: false,
      report: () => {},
      http: { lane },
      stream: { bodyBytes: 40_000 },
    });
  servers = await Promise.all([open(true), open(false)]);
});
afterAll(() => Promise.all(servers.map((server) => server.close())));

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** What a server has said on one connection, and whether it has closed it. */
class Client {
  private readonly socket: Socket;
  private readonly opened: Promise<unknown>;
  private text = "";
  /** How often it heard something. */
  heard = 0;
  isClosed = false;

  constructor(url: string) {
    this.socket = connect(Number(new URL(url).port), "127.0.0.1");
    this.opened = new Promise((resolve) => this.socket.once("connect", resolve));
    this.socket.on("data", (bytes) => {
      this.text += bytes.toString("latin1");
      this.heard++;
    });
    this.socket.on("error", () => {});
    this.socket.on("close", () => {
      this.heard++;
      this.isClosed = true;
    });
  }

  async send(pieces: readonly Buffer[]): Promise<void> {
    await this.opened;
    for (const piece of pieces) {
      if (this.socket.destroyed) return;
      this.socket.write(piece);
      await turn();
    }
  }

  get said(): string {
    return normalized(this.text);
  }

  finish(): void {
    this.socket.end();
  }

  leave(): void {
    this.socket.destroy();
  }
}

/**
 * A connection that the server closes within its input may lose the end of what was said: to a reset of the network, or because
 * a refusal comes only if nothing is owed. That depends on the moment, on either server.
 */
function isSame(one: Client, other: Client): boolean {
  if (one.isClosed !== other.isClosed) return false;
  if (!one.isClosed) return one.said === other.said;
  const [short, long] = [one, other]
    .map(({ said }) => said.replace(BODY_REFUSAL, ""))
    .sort((a, b) => a.length - b.length) as [string, string];
  return long.startsWith(short);
}

/**
 * The answer to a body that is not framed as it must be. It comes instead of the answer to its request if the server has the body
 * before it has that answer, which depends on the moment too.
 */
const BODY_REFUSAL = /\n400\nConnection: close\n[^{]*\{[^{}]*the body is not framed[^{}]*\}$/;

const outcome = ({ said, isClosed }: Client) => ({ said, isClosed });

async function agree(one: Client, other: Client, what: string): Promise<void> {
  const until = Date.now() + PATIENCE_MS;
  for (;;) {
    const heard = one.heard + other.heard;
    for (let turns = 0; turns < SILENT_TURNS; turns++) await turn();
    if (heard < one.heard + other.heard) continue;
    if (isSame(one, other)) return;
    if (Date.now() > until) expect(outcome(one), what).toEqual(outcome(other));
    await sleep(5);
  }
}

/** Returns whether both said exactly the same, and something. */
async function compare(seed: number): Promise<boolean> {
  const random = new Random(seed);
  const texts = conversation(random, seed);
  const clients = servers.map(({ url }) => new Client(url));
  const [one, other] = clients as [Client, Client];
  const what = `seed ${seed}: ${JSON.stringify(texts)}`;
  try {
    for (const text of texts) {
      const pieces = cut(Buffer.from(text, "latin1"), random);
      await Promise.all(clients.map((client) => client.send(pieces)));
      await agree(one, other, what);
    }
    // What a connection does with the end of its input is part of its fate.
    for (const client of clients) client.finish();
    await agree(one, other, `after its end, ${what}`);
    return one.said !== "" && one.said === other.said;
  } finally {
    for (const client of clients) client.leave();
  }
}

function cut(bytes: Buffer, random: Random): Buffer[] {
  const pieces: Buffer[] = [];
  // Not so many that a busy server takes the client for one that never ends.
  const size = Math.max(random.pick([7, 60, 500, bytes.length]), bytes.length >> 6);
  for (let at = 0; at < bytes.length; ) {
    const end = Math.min(bytes.length, at + 1 + random.below(size));
    pieces.push(bytes.subarray(at, end));
    at = end;
  }
  return pieces;
}

/** Every stream of the default project, with its content. */
async function storedOf({ url }: RunningServer): Promise<readonly (readonly string[])[]> {
  const stored: string[][] = [];
  for (let after: string | undefined = ""; after !== undefined; ) {
    const query = after === "" ? "limit=1000" : `limit=1000&after=${encodeURIComponent(after)}`;
    const page = (await (await fetch(`${url}/v1/default/streams?${query}`)).json()) as Listing;
    for (const { path } of page.streams)
      stored.push([path, await (await fetch(`${url}/v1/stream/${path}?offset=-1`)).text()]);
    after = page.next;
  }
  return stored.sort();
}

interface Listing {
  readonly streams: readonly { readonly path: string }[];
  readonly next?: string;
}

const TITLE = `${CASES} connections get the same from a server with the lane and from one without`;

it(TITLE, { timeout: CASES * 500 }, async () => {
  let next = 1;
  let exact = 0;
  const work = async () => {
    while (next <= CASES) if (await compare(next++)) exact++;
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  expect(exact).toBeGreaterThan(CASES * 0.7);
  const [one, other] = await Promise.all(servers.map(storedOf));
  expect(one).toEqual(other);
  expect(one!.length).toBeGreaterThan(CASES / 30);
});
