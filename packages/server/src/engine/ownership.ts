/**
 * Who owns which entity, for engines that live in one process. An engine calls it for `claim` and `release`, and before a
 * commit that names an owner.
 *
 * What must stay true: a claim stands until its time is over or its owner releases it; no two claims ever share
 * (epoch, nonce), so a holder that lost its claim is refused for good, even if it gets a new one later.
 */
import type { World } from "../core/world.ts";
import type { Held, Owner } from "./contract.ts";
import { ExpiringMap } from "./expiring-map.ts";

interface Claim {
  readonly owner: Owner;
  readonly node: string;
  readonly untilMs: number;
}

const MAX_CLAIMS = 1_000_000;
const NONCE_BYTES = 12;

export class Ownership {
  private readonly claims = new ExpiringMap<Claim>(MAX_CLAIMS);

  /** Epochs count up from `epoch`; an engine that survives restarts passes one that its earlier lives never reached. */
  constructor(
    private readonly world: Pick<World, "now" | "randomBytes">,
    private epoch: number,
  ) {}

  /** The node that holds the entity already renews its claim and stays the same owner. */
  claim(key: string, node: string, ttlMs: number): Owner | Held {
    const now = this.world.now();
    const held = this.claims.get(key, now);
    if (held !== undefined && held.node !== node) return { kind: "held", node: held.node, untilMs: held.untilMs };
    const owner = held?.owner ?? this.newOwner();
    this.claims.set(key, { owner, node, untilMs: now + ttlMs }, now);
    return owner;
  }

  /** Releasing what one does not own any more changes nothing. */
  release(key: string, owner: Owner): void {
    if (this.stands(key, owner)) this.claims.delete(key);
  }

  stands(key: string, owner: Owner): boolean {
    const claim = this.claims.get(key, this.world.now());
    return claim !== undefined && claim.owner.epoch === owner.epoch && claim.owner.nonce === owner.nonce;
  }

  private newOwner(): Owner {
    const digits = Array.from(this.world.randomBytes(NONCE_BYTES), (byte) => byte.toString(16).padStart(2, "0"));
    return { kind: "owner", epoch: ++this.epoch, nonce: digits.join("") };
  }
}
