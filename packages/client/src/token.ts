/**
 * The client's token: asked for once, and again shortly before it expires or when the server refuses it. Owned by the
 * connection.
 *
 * Invariants: all waiting requests share one call of the token function. A valid token is returned without a promise, so
 * that a request starts at once; its renewal runs beside the requests. The refusal of a token that was replaced meanwhile
 * causes no new call. A wrong clock causes no call per request.
 */
import { orAborted } from "./abort.ts";
import { describeCause, SluiceError } from "./error.ts";

/** A token with the time when it expires, in epoch milliseconds. The client reads that time from a JWT itself. */
export interface ExpiringToken {
  readonly token: string;
  readonly expiresAt?: number | undefined;
}

type Told = string | ExpiringToken;

export type TokenSource = string | (() => Told | Promise<Told>);

/** How long before its end a token is renewed; a fifth of its lifetime if that is shorter. */
const MARGIN_MS = 30_000;
/** The shortest time between two renewals that fail while the token is still valid. */
const RENEWAL_MS = 1_000;

export class Token {
  private current: string | undefined;
  private isFresh = false;
  private renewAt = Number.POSITIVE_INFINITY;
  private expiresAt = Number.POSITIVE_INFINITY;
  private asking: Promise<string> | undefined;

  constructor(private readonly source: TokenSource | undefined) {
    if (typeof source === "string") this.current = source;
  }

  /** The last token; a page that goes away has no time to ask for another. */
  get known(): string | undefined {
    return this.current;
  }

  get(signal: AbortSignal | undefined): string | undefined | Promise<string> {
    const { source } = this;
    if (typeof source !== "function") return this.current;
    const now = Date.now();
    const isValid = this.isFresh && now < this.expiresAt;
    if (!isValid || now >= this.renewAt) this.asking ??= this.ask(source);
    return isValid ? this.current : orAborted(this.asking!, signal);
  }

  /** Whether another token can be had. */
  refuse(token: string | undefined): boolean {
    if (token === this.current) this.isFresh = false;
    return typeof this.source === "function";
  }

  private ask(source: () => Told | Promise<Told>): Promise<string> {
    const asking = (async () => this.take(await source()))().catch((cause) => {
      this.renewAt = Date.now() + Math.max(RENEWAL_MS, (this.expiresAt - Date.now()) / 2);
      if (cause instanceof SluiceError) throw cause;
      const says = `the token function failed: ${describeCause(cause)}`;
      throw new SluiceError("token-failed", says, { cause, retryable: true });
    });
    const done = () => {
      this.asking = undefined;
    };
    // Waiting callers get the error; when all of them have aborted, no caller needs it.
    asking.then(done, done);
    return asking;
  }

  private take(told: Told): string {
    const token = typeof told === "object" ? told?.token : told;
    if (typeof token !== "string") throw new TypeError(`it returned ${token} instead of a token`);
    const now = Date.now();
    const lifeMs = typeof told === "object" && told.expiresAt !== undefined ? told.expiresAt - now : lifeOf(token, now);
    // A token that has expired by this clock is used until the server refuses it, because the clock may be wrong.
    const leftMs = lifeMs > 0 ? lifeMs : Number.POSITIVE_INFINITY;
    this.expiresAt = now + leftMs;
    this.renewAt = this.expiresAt - Math.min(MARGIN_MS, leftMs / 5);
    this.current = token;
    this.isFresh = true;
    return token;
  }
}

/** The lifetime of a JWT in milliseconds: by its own times where it has both, so that the clock need not be right. */
function lifeOf(token: string, nowMs: number): number {
  try {
    const { exp, iat } = JSON.parse(atob(token.split(".")[1]!.replaceAll("-", "+").replaceAll("_", "/")));
    const lifeMs = typeof iat === "number" ? (exp - iat) * 1_000 : exp * 1_000 - nowMs;
    return Number.isNaN(lifeMs) ? Number.POSITIVE_INFINITY : lifeMs;
  } catch {
    // Not a JWT: the server's refusal tells when it has expired.
    return Number.POSITIVE_INFINITY;
  }
}
