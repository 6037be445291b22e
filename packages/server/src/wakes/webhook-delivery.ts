/**
 * Delivers a wake: a signed POST to a webhook, or an event in a wake stream. Called by the waker. One call is one
 * attempt; the rules decide when to retry.
 */
import { header } from "@sluice/protocol";
import { base64url, utf8 } from "../core/bytes.ts";
import { Lanes } from "../core/lanes.ts";
import { SharedLimit } from "../core/shared-limit.ts";
import type { Streams } from "../streams/service.ts";
import type { SigningKeys } from "./keys.ts";
import { describeLink, type LinkInfo, type Meta, type Wake } from "./state.ts";
import { formatToken } from "./tokens.ts";

export interface WebhookRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** `body` is the part of the response that was read within the sender's limit. */
export type WebhookAnswer =
  | { readonly kind: "answered"; readonly status: number; readonly body: string }
  | { readonly kind: "failed"; readonly why: string };

/**
 * Sends a POST only to addresses that webhooks may reach. It resolves the name itself, checks every address with
 * `mayConnect`, and connects to an address that it has checked. It follows no redirect, and limits the time and the
 * size of the response.
 */
export interface WebhookSender {
  send(request: WebhookRequest): Promise<WebhookAnswer>;
  /** Aborts the requests in flight; their calls resolve as failed. */
  close(): void;
}

export interface Notification {
  readonly project: string;
  readonly id: string;
  readonly meta: Meta;
  readonly wake: Wake;
}

export class Delivery {
  readonly outcomes = { sent: 0, done: 0, failed: 0 };

  private readonly lanes: Lanes;

  constructor(
    private readonly streams: Streams,
    private readonly keys: SigningKeys,
    private readonly sender: WebhookSender,
    maxLanes: number,
    sharePercent?: number,
  ) {
    const setting = "internal.wake.deliveries";
    const noun = "attempts under way";
    this.lanes = new Lanes(new SharedLimit({ setting, noun, max: maxLanes, code: "overloaded", sharePercent }));
  }

  close(): void {
    this.sender.close();
  }

  get active(): number {
    return this.lanes.active;
  }

  get waiting(): number {
    return this.lanes.waiting;
  }

  /** Calls `infos` when it is this attempt's turn. */
  async attempt(
    notification: Notification,
    infos: () => Promise<readonly LinkInfo[]>,
  ): Promise<"sent" | "done" | "failed"> {
    let outcome: "sent" | "done" | "failed" = "failed";
    try {
      outcome = await this.lanes.run(notification.project, async () =>
        notification.meta.config.type === "pull-wake"
          ? this.writeEvent(notification)
          : this.post(notification, await infos()),
      );
      return outcome;
    } finally {
      this.outcomes[outcome]++;
    }
  }

  private async writeEvent({ project, id, meta, wake }: Notification): Promise<"sent" | "failed"> {
    const path = meta.config.wakeStream!;
    const described = await this.streams.describe(project, path);
    if (described.kind !== "live") return "failed";
    const { contentType } = described.meta.config;
    const ts = this.streams.engine.now();
    const event = { type: "wake", subscription_id: id, stream: wake.trigger, generation: wake.generation, ts };
    const append = { payloads: [utf8(JSON.stringify(event))], contentType, close: false };
    const outcome = await this.streams.append(project, path, append);
    return outcome.kind === "appended" ? "sent" : "failed";
  }

  private async post(notification: Notification, infos: readonly LinkInfo[]): Promise<"sent" | "done" | "failed"> {
    const { project, id, meta, wake } = notification;
    const body = JSON.stringify({
      subscription_id: id,
      wake_id: wake.id,
      generation: wake.generation,
      streams: infos.map(describeLink),
      callback_url: `${subscriptionUrl(meta.base, id)}/callback`,
      callback_token: tokenOf(id, meta, wake),
    });
    const seconds = Math.floor(this.streams.engine.now() / 1_000);
    const { kid, bytes } = await this.keys.sign(project, utf8(`${seconds}.${body}`));
    const headers = {
      [header.contentType]: "application/json",
      "Webhook-Signature": `t=${seconds},kid=${kid},ed25519=${base64url(bytes)}`,
    };
    const answer = await this.sender.send({ url: meta.config.webhookUrl!, headers, body });
    if (answer.kind === "failed" || answer.status < 200 || answer.status > 299) return "failed";
    return saysDone(answer.body) ? "done" : "sent";
  }
}

export function subscriptionUrl(base: string, id: string): string {
  return `${base}__ds/subscriptions/${encodeURIComponent(id)}`;
}

/** The token of a wake that has one. */
export function tokenOf(id: string, meta: Meta, wake: Wake): string {
  const { generation, secret, tokenUntil } = wake;
  return formatToken({
    subscription: id,
    incarnation: meta.incarnation,
    generation,
    until: tokenUntil!,
    secret: secret!,
  });
}

function saysDone(body: string): boolean {
  try {
    const answer = JSON.parse(body) as { done?: unknown } | null;
    return answer?.done === true;
  } catch {
    return false;
  }
}
