/**
 * One client's requests over the simulated network. Owners and publishers of the sessions scenario use it.
 *
 * Invariants: each request has a definite end: answered, never sent, or over without an answer.
 */
import type { Spec } from "../../network.ts";
import type { Stage } from "../../scenario.ts";
import type { Interval, Story } from "./story.ts";

const PATIENCE_MS = 3_000;
/**
 * By then a request without an answer has had its effect or never will: it has arrived, and nothing in the server takes
 * longer.
 */
const OVER_MS = 12_000;

export type Told =
  | { readonly kind: "reply"; readonly status: number; readonly text: string; header(name: string): string | undefined }
  | { readonly kind: "unsent" }
  | { readonly kind: "unknown" };

export class Caller {
  constructor(
    readonly name: string,
    readonly stage: Stage,
    readonly story: Story,
  ) {}

  /** Makes one attempt. A reply with a server error leaves the outcome unknown. */
  async once(spec: Spec, interval: Interval = this.story.begin()): Promise<Told> {
    const { network, world } = this.stage;
    const answer = await network.request(spec, PATIENCE_MS);
    if (answer.kind === "lost") await world.sleep(OVER_MS);
    this.story.end(interval);
    const told: Told =
      answer.kind === "reply"
        ? {
            kind: answer.head.status >= 500 ? "unknown" : "reply",
            status: answer.head.status,
            text: Buffer.from(answer.body).toString(),
            header: (name) => answer.head.header(name),
          }
        : { kind: answer.kind === "refused" ? "unsent" : "unknown" };
    const what = `${spec.method} ${spec.path}${spec.search ? `?${spec.search}` : ""} ${bodyOf(spec)}`;
    const how =
      answer.kind === "reply"
        ? `${answer.head.status} ${Buffer.from(answer.body).toString().slice(0, 200)}`
        : answer.kind;
    this.story.note(`${this.name} [${interval.invoked}-${interval.returned}] ${what} -> ${how}`);
    world.log?.(`  ${this.name} ${what} -> ${how}`);
    return told;
  }

  /** Repeats an idempotent request until there is an answer. */
  async insist(spec: Spec): Promise<Extract<Told, { kind: "reply" }>> {
    for (;;) {
      const told = await this.once(spec);
      if (told.kind === "reply") return told;
      await this.stage.world.sleep(this.stage.random.between(1, 200));
    }
  }
}

function bodyOf({ body }: Spec): string {
  return body === undefined ? "" : Buffer.from(body).toString().slice(0, 150);
}
