/**
 * The requests of the holders of wakes: a worker claims, acknowledges and releases; a webhook's receiver calls back.
 * Each is a step of the subscription, decided by the rules. Called by the routes.
 */
import type { Position } from "@sluice/protocol";
import type { Keepers } from "../engine/keeper.ts";
import type { Linker } from "./linker.ts";
import { type LinkInfo, linkTable, META, type Meta, STATE, wakeEntity } from "./state.ts";
import type { Subscription } from "./subscription.ts";
import { parseToken } from "./tokens.ts";
import { type Ack, ackRule, claimRule, type ProofFailure, releaseRule } from "./wake-rules.ts";
import type { Waker } from "./waking.ts";
import { tokenOf } from "./webhook-delivery.ts";

export type ClaimResult =
  | { readonly kind: "absent" | "wrong-type" | "idle" }
  | { readonly kind: "held"; readonly holder: string; readonly generation: number }
  | Claimed;

export interface Claimed {
  readonly kind: "claimed";
  readonly meta: Meta;
  readonly wakeId: string;
  readonly generation: number;
  readonly token: string;
  readonly infos: readonly LinkInfo[];
}

/** The proof that a callback, an ack or a release carries. */
export interface Word {
  readonly token: string;
  readonly wakeId: string;
  readonly generation: number;
}

export interface AckWord extends Word {
  readonly acks: readonly Ack[];
  readonly done: boolean;
}

type Refused = ProofFailure | { readonly kind: "token-invalid" };

export class Holding {
  constructor(
    private readonly keepers: Keepers,
    private readonly linker: Linker,
    private readonly waker: Waker,
    private readonly find: (project: string, id: string) => Promise<Subscription | undefined>,
  ) {}

  async claim(project: string, id: string, worker: string): Promise<ClaimResult> {
    const subscription = await this.find(project, id);
    if (subscription === undefined) return { kind: "absent" };
    return this.waker.step(subscription, async () => {
      const tails = await this.linker.pending(subscription);
      const keys = [META, STATE, ...tails.map(({ path }) => linkTable.at(path))];
      const input = { worker, fresh: this.waker.fresh(), tails };
      const e = wakeEntity(project, id);
      const outcome = await this.keepers.submit(e, keys, (view, now) => claimRule(view, now, input, this.waker.limits));
      if (outcome.kind !== "claimed") return outcome;
      const { meta, wake } = outcome;
      const pinned = new Map(tails.map(({ path, tail }) => [path, tail]));
      const infos = await this.linker.infos(subscription, (path) => pinned.get(path));
      const token = tokenOf(id, meta, wake);
      return { kind: "claimed", meta, wakeId: wake.id, generation: wake.generation, token, infos };
    });
  }

  /** An ack of a worker (`pullOnly`) or a callback of a webhook. */
  async ack(
    project: string,
    id: string,
    word: AckWord,
    pullOnly: boolean,
  ): Promise<Refused | { kind: "bad-ack"; why: string } | { kind: "acked"; nextWake: boolean }> {
    const subscription = await this.find(project, id);
    if (subscription === undefined) return { kind: "absent" };
    const token = tokenFor(id, word.token);
    if (token === undefined) return { kind: "token-invalid" };
    return this.waker.step(subscription, async () => {
      const { acks, done, wakeId, generation } = word;
      const paths = [...new Set(acks.map(({ path }) => path))];
      const tails = new Map<string, Position>();
      for (const { path, tail } of await this.linker.tailsOf(project, paths)) tails.set(path, tail);
      const keys = [META, STATE, ...paths.map(linkTable.at)];
      const input = { proof: { token, wakeId, generation }, pullOnly, acks, tails, done };
      const e = wakeEntity(project, id);
      const outcome = await this.keepers.submit(e, keys, (view, now) => ackRule(view, now, input));
      if (outcome.kind !== "acked") return outcome;
      return { kind: "acked", nextWake: outcome.isReleased && (await this.wakeNext(subscription)) };
    });
  }

  async release(
    project: string,
    id: string,
    { token: text, wakeId, generation }: Word,
  ): Promise<Refused | { kind: "released" }> {
    const subscription = await this.find(project, id);
    if (subscription === undefined) return { kind: "absent" };
    const token = tokenFor(id, text);
    if (token === undefined) return { kind: "token-invalid" };
    return this.waker.step(subscription, async () => {
      const proof = { token, wakeId, generation };
      const e = wakeEntity(project, id);
      const outcome = await this.keepers.submit(e, [META, STATE], (view, now) => releaseRule(view, now, proof));
      if (outcome.kind === "released") await this.wakeNext(subscription);
      return outcome;
    });
  }

  /** The holder's request is durable already. A fault here is retried by the server and not reported to the holder. */
  private async wakeNext(subscription: Subscription): Promise<boolean> {
    try {
      return await this.waker.check(subscription);
    } catch (fault) {
      this.waker.doubt(subscription, fault);
      return false;
    }
  }
}

function tokenFor(id: string, text: string) {
  const token = parseToken(text);
  return token?.subscription === id ? token : undefined;
}
