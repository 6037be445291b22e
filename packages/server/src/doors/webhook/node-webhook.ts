/**
 * Sends webhooks with node's HTTP client. Compose creates one; the wakes feature calls it through its port.
 *
 * Invariants: a name is resolved once per request, and every address of it is checked. The connection goes to one of
 * exactly these addresses, so a second answer of a name server cannot redirect it. Redirects are not followed. Time and
 * the size of the response are limited.
 */
import { lookup } from "node:dns/promises";
import { type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { LookupFunction } from "node:net";
import { hostOf, isAddress } from "../../core/address.ts";
import type { Cancel, World } from "../../core/world.ts";
import { WEBHOOK_LIMITS } from "../../wakes/defaults.ts";
import type { WebhookAnswer, WebhookRequest, WebhookSender } from "../../wakes/webhook-delivery.ts";
import { checkWebhookUrl, mayConnect, type WebhookReach } from "../../wakes/webhook-targets.ts";

export interface ResolvedAddress {
  readonly address: string;
  readonly family: number;
}

export interface NodeWebhookOptions extends WebhookReach {
  readonly world: Pick<World, "after">;
  readonly timeoutMs?: number;
  readonly answerBytes?: number;
  /** All addresses of a name. */
  readonly resolve?: (host: string) => Promise<readonly ResolvedAddress[]>;
  /** Whether a connection for this URL may go to this address. */
  readonly mayConnect?: typeof mayConnect;
}

const FORBIDDEN: WebhookAnswer = {
  kind: "failed",
  why: "the name resolves to an address that webhooks must not reach",
};

export class NodeWebhookSender implements WebhookSender {
  private readonly inFlight = new Set<(why: string) => void>();

  constructor(private readonly options: NodeWebhookOptions) {}

  async send(request: WebhookRequest): Promise<WebhookAnswer> {
    const { world } = this.options;
    const checked = checkWebhookUrl(request.url, this.options);
    if (checked.kind === "rejected") return { kind: "failed", why: checked.why };
    let giveUp: (why: string) => void = () => {};
    let cancel: Cancel = () => {};
    const givenUp = new Promise<WebhookAnswer>((resolve) => {
      giveUp = (why) => resolve({ kind: "failed", why });
      cancel = world.after(this.options.timeoutMs ?? WEBHOOK_LIMITS.timeoutMs, () => giveUp("no response in time"));
    });
    this.inFlight.add(giveUp);
    const exchange = new Exchange(checked.url, request, this.options.answerBytes ?? WEBHOOK_LIMITS.answerBytes);
    try {
      return await Promise.race([givenUp, this.resolveAndSend(checked.url, exchange)]);
    } finally {
      cancel();
      this.inFlight.delete(giveUp);
      exchange.end();
    }
  }

  close(): void {
    for (const giveUp of [...this.inFlight]) giveUp("the server is shutting down");
  }

  private async resolveAndSend(url: URL, exchange: Exchange): Promise<WebhookAnswer> {
    let addresses: readonly ResolvedAddress[];
    try {
      addresses = await this.resolve(hostOf(url));
    } catch {
      return { kind: "failed", why: "the name cannot be resolved" };
    }
    const may = this.options.mayConnect ?? mayConnect;
    const areAllowed = addresses.every(({ address }) => may(url, address, this.options));
    if (addresses.length === 0 || !areAllowed) return FORBIDDEN;
    return exchange.run(addresses);
  }

  private async resolve(host: string): Promise<readonly ResolvedAddress[]> {
    if (isAddress(host)) return [{ address: host, family: host.includes(":") ? 6 : 4 }];
    if (this.options.resolve) return this.options.resolve(host);
    return lookup(host, { all: true, verbatim: true });
  }
}

/** One request and its response. After `end` nothing of it remains. */
class Exchange {
  private outgoing: ClientRequest | undefined;
  private isEnded = false;

  constructor(
    private readonly url: URL,
    private readonly request: WebhookRequest,
    private readonly maxAnswerBytes: number,
  ) {}

  run(addresses: readonly ResolvedAddress[]): Promise<WebhookAnswer> {
    return new Promise((resolve) => {
      if (this.isEnded) return;
      const body = Buffer.from(this.request.body);
      const headers = { ...this.request.headers, "Content-Length": body.length };
      const options = { method: "POST", headers, agent: false, lookup: pinned(addresses) } as const;
      this.outgoing = this.url.protocol === "https:" ? httpsRequest(this.url, options) : httpRequest(this.url, options);
      this.outgoing.on("error", (error) => resolve({ kind: "failed", why: error.message }));
      this.outgoing.on("response", (response) => this.read(response, resolve));
      this.outgoing.end(body);
    });
  }

  /** Reads up to the limit and ignores the rest. */
  private read(response: IncomingMessage, resolve: (answer: WebhookAnswer) => void): void {
    const chunks: Buffer[] = [];
    let length = 0;
    const answer = () => {
      const body = Buffer.concat(chunks).subarray(0, this.maxAnswerBytes).toString("utf8");
      resolve({ kind: "answered", status: response.statusCode!, body });
    };
    response.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length > this.maxAnswerBytes) answer();
    });
    response.on("end", answer);
    response.on("error", (error) => resolve({ kind: "failed", why: error.message }));
  }

  end(): void {
    this.isEnded = true;
    this.outgoing?.destroy();
  }
}

/** Answers every lookup with the addresses that were checked. */
function pinned(addresses: readonly ResolvedAddress[]): LookupFunction {
  return (_host, options, callback) => {
    if (options.all) callback(null, [...addresses]);
    else callback(null, addresses[0]!.address, addresses[0]!.family);
  };
}
