/**
 * Which session this tab is: its id, its short-lived token, and the lock that tells it apart from a duplicate of the tab. The
 * link asks for it before every connection.
 *
 * Invariants: a session that another tab holds is never used; the tab makes one of its own. The id survives a reload in the
 * page's storage, with the offsets of the page before. Concurrent callers share one request.
 */
import { header } from "@sluice/protocol";
import type { Answer, Call } from "../connection.ts";
import { badAnswer, hasCode } from "../error.ts";
import type { Credentials } from "./transport.ts";
import type { Hold, LiveWorld } from "./world.ts";

/** A token lives ten minutes at most; a server that gave it less time says so with `bye`. */
const RENEW_MS = 4 * 60_000;
/** A page that is reloaded gives its lock up within this time. */
const LOCK_WAIT_MS = 500;

/** Sends one request; every part of a live session asks through it. */
export type Ask = (call: Call) => Promise<Answer>;

export interface IdentityParts {
  readonly world: LiveWorld;
  readonly ask: Ask;
  /** Where the page's storage keeps the session. */
  readonly key: string;
  /** The offsets of the page before a reload. */
  restored(offsets: Readonly<Record<string, string>>): void;
  /** There is a new session, without any subscription. */
  changed(): void;
}

export class Identity {
  private sessionId: string | undefined;
  private token = "";
  private renewAtMs = 0;
  private release: (() => void) | undefined;
  private hasLooked = false;
  private isClosed = false;
  private asking: Promise<Credentials> | undefined;

  constructor(private readonly parts: IdentityParts) {}

  get id(): string | undefined {
    return this.sessionId;
  }

  /** Whether a lock shows that no other tab uses the session. */
  get isSole(): boolean {
    return this.release !== undefined;
  }

  /** The session and a token that is good for a while. Rejects with a SluiceError. */
  ready(): Promise<Credentials> {
    const { sessionId, token } = this;
    if (sessionId !== undefined && this.parts.world.now() < this.renewAtMs)
      return Promise.resolve({ sessionId, token });
    this.asking ??= this.renew().finally(() => {
      this.asking = undefined;
    });
    return this.asking;
  }

  /** The token may be of no use any more. */
  distrust(): void {
    this.renewAtMs = 0;
  }

  /** The session is over, or is another tab's. */
  forget(sessionId: string | undefined): void {
    if (sessionId === undefined || this.sessionId !== sessionId) return;
    this.sessionId = undefined;
    this.letGo();
    this.parts.changed();
  }

  /** Keeps the session for the page after a reload. */
  save(offsets: Readonly<Record<string, string>>): void {
    if (this.sessionId === undefined) return;
    this.parts.world.page.save(this.parts.key, JSON.stringify({ id: this.sessionId, offsets }));
  }

  /** Gives the session up for a later one of the page: its lock is free, also if it is only asked for now. */
  close(): void {
    this.isClosed = true;
    this.letGo();
  }

  private letGo(): void {
    this.release?.();
    this.release = undefined;
  }

  private async hold(sessionId: string): Promise<Hold["kind"]> {
    const held = await this.parts.world.page.hold(lockOf(sessionId), LOCK_WAIT_MS);
    if (held.kind === "held") this.release = held.release;
    if (this.isClosed) this.letGo();
    return held.kind;
  }

  private async renew(): Promise<Credentials> {
    if (!this.hasLooked) await this.resume();
    for (;;) {
      const known = this.sessionId;
      try {
        return await this.mint(known);
      } catch (error) {
        // Expired, or made by another user of this browser.
        if (known === undefined || !hasCode(error, "session-not-found")) throw error;
        this.forget(known);
      }
    }
  }

  /** Takes up the session of the page before a reload, unless another tab has it: then this tab is its duplicate. */
  private async resume(): Promise<void> {
    this.hasLooked = true;
    const { page } = this.parts.world;
    const stored = storedIn(page.load(this.parts.key));
    if (stored === undefined) return;
    if ((await this.hold(stored.id)) === "taken") return;
    this.sessionId = stored.id;
    this.parts.restored(stored.offsets);
  }

  private async mint(known: string | undefined): Promise<Credentials> {
    const { world, ask } = this.parts;
    const askedAtMs = world.now();
    const answer = await ask(postOf("sessions", { sessionId: known }));
    const { sessionId, token } = mintedIn(answer);
    if (known === undefined) {
      this.sessionId = sessionId;
      this.save({});
      await this.hold(sessionId);
    }
    this.token = token;
    this.renewAtMs = askedAtMs + RENEW_MS;
    return { sessionId, token };
  }
}

/** A request with a JSON body. */
export function postOf(path: string, body: object, method = "POST"): Call {
  return { method, path, headers: { [header.contentType]: "application/json" }, body: JSON.stringify(body) };
}

function lockOf(sessionId: string): string {
  return `sluice:session:${sessionId}`;
}

interface Stored {
  readonly id: string;
  readonly offsets: Readonly<Record<string, string>>;
}

/** Another script of the page may have written to the storage. */
function storedIn(text: string | undefined): Stored | undefined {
  try {
    const { id, offsets } = JSON.parse(text ?? "") as Partial<Stored>;
    if (typeof id !== "string" || !/^[0-9a-f-]{36}$/.test(id)) return undefined;
    return { id, offsets: typeof offsets === "object" && offsets !== null ? offsets : {} };
  } catch {
    return undefined;
  }
}

function mintedIn({ at, status, text }: Answer): Credentials {
  const value = jsonIn(text) as Partial<Credentials> | undefined;
  if (typeof value?.sessionId === "string" && typeof value.token === "string") return value as Credentials;
  throw badAnswer(at, status, "the answer is not that of a session");
}

export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
