/**
 * The schemas that messages of topics must follow, remembered for a second so that a publish asks the store for none. The publisher
 * calls it.
 *
 * Invariants: a change of a topic's schema counts within a second. A topic whose schema was deleted takes no messages.
 */
import type { Caller, MethodParts } from "./caller.ts";
import { checkerOf } from "./schema-check.ts";
import { encodingOf, named } from "./schemas.ts";
import { schemaOf } from "./topics.ts";

const FRESH_MS = 1_000;
const MAX_TOPICS = 10_000;

/** Undefined for a topic that takes any message. */
type Check = ((message: Uint8Array) => void) | undefined;

interface Known {
  readonly untilMs: number;
  readonly check: Check;
}

export class TopicSchemas {
  private readonly known = new Map<string, Known>();

  constructor(private readonly parts: MethodParts) {}

  /** Throws a Refusal for a message that does not follow the schema of its topic. */
  async check(caller: Caller, path: string, messages: readonly { readonly data: Uint8Array }[]): Promise<void> {
    const check = await this.checkOf(caller, path);
    if (check !== undefined) for (const { data } of messages) check(data);
  }

  private async checkOf(caller: Caller, path: string): Promise<Check> {
    const key = `${caller.names.project}/${path}`;
    const now = this.parts.world.monotonicMs();
    const known = this.known.get(key);
    if (known !== undefined && known.untilMs > now) return known.check;
    const check = await this.read(caller, path);
    if (this.known.size >= MAX_TOPICS) this.known.clear();
    this.known.set(key, { untilMs: now + FRESH_MS, check });
    return check;
  }

  private async read(caller: Caller, path: string): Promise<Check> {
    const { service, definitions } = this.parts;
    const { names, access } = caller;
    const settings = schemaOf(await service.topic(names.project, path, access), definitions);
    if (settings === undefined) return undefined;
    return checkerOf(await named(this.parts, caller, settings.schema), encodingOf(settings.encoding));
  }
}
