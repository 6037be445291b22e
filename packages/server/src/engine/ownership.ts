/**
 * The ownerships that stand, for engines that live in one process. An engine calls it for `claim` and `release`, and before a
 * commit that names an owner.
 *
 * Invariants: a claim stands until its time is over or its owner releases it. No two claims ever share (epoch, nonce). So an
 * owner that lost its claim is fenced for good, even if it gets a new claim later.
 */
import type { World } from "../core/world.ts";
import { ENGINE_BOUNDS } from "./bounds.ts";
import type { Held, Owner } from "./contract.ts";
import { ExpiringMap } from "./expiring-map.ts";

interface Claim {
  readonly owner: Owner;
  readonly node: string;
  /** By the monotonic clock, so that a lease lasts as long as it should, however the machine's clock is set. */
  readonly untilMs: number;
}

/** Part of the stored format. */
const NONCE_BYTES = 12;

export class Ownership {
  private readonly claims: ExpiringMap<Claim>;

  /**
   * Epochs count up from `epoch`. An engine that survives restarts passes one that its earlier lives never reached. `now` is the
   * engine's clock, by which other nodes learn the end of a claim.
   */
  constructor(
    private readonly world: Pick<World, "monotonicMs" | "randomBytes">,
    private readonly now: () => number,
    private epoch: number,
    maxClaims = ENGINE_BOUNDS.claims,
  ) {
    this.claims = new ExpiringMap(maxClaims);
  }

  /**
   * A claim that names the standing ownership renews it. Every other claim is answered with the holder, also a claim by the
   * holder's own node.
   */
  claim(key: string, node: string, ttlMs: number, held?: Owner): Owner | Held {
    const now = this.world.monotonicMs();
    const standing = this.claims.get(key, now);
    if (standing !== undefined && (held === undefined || !sameOwner(standing.owner, held))) {
      return { kind: "held", node: standing.node, untilMs: this.now() + standing.untilMs - now };
    }
    const owner = standing?.owner ?? this.newOwner();
    this.claims.set(key, { owner, node, untilMs: now + ttlMs }, now);
    return owner;
  }

  /** A release of an ended ownership changes nothing. */
  release(key: string, owner: Owner): void {
    if (this.stands(key, owner)) this.claims.delete(key);
  }

  stands(key: string, owner: Owner): boolean {
    const claim = this.claims.get(key, this.world.monotonicMs());
    return claim !== undefined && sameOwner(claim.owner, owner);
  }

  private newOwner(): Owner {
    const digits = Array.from(this.world.randomBytes(NONCE_BYTES), (byte) => byte.toString(16).padStart(2, "0"));
    return { kind: "owner", epoch: ++this.epoch, nonce: digits.join("") };
  }
}

export function sameOwner(a: Owner, b: Owner): boolean {
  return a.epoch === b.epoch && a.nonce === b.nonce;
}
