/**
 * The schemas that messages of topics must follow, remembered for a second so that a publish asks the store for none. The publisher
 * calls it.
 *
 * Invariants: a change of a topic's schema counts within a second. A topic whose schema was deleted takes no messages.
 */
import type { NewSchema } from "../../pull/contract.ts";
import type { Caller, MethodParts } from "./caller.ts";
import { checkAgainst, type Encoding } from "./schema-check.ts";
import { encodingOf, named } from "./schemas.ts";
import { schemaOf } from "./topics.ts";

const FRESH_MS = 1_000;
const MAX_TOPICS = 10_000;

interface Demanded {
  readonly schema: NewSchema;
  readonly encoding: Encoding;
}

interface Known {
  readonly untilMs: number;
  readonly demanded: Demanded | undefined;
}

export class TopicSchemas {
  private readonly known = new Map<string, Known>();

  constructor(private readonly parts: MethodParts) {}

  /** Throws a Refusal for a message that does not follow the schema of its topic. */
  async check(caller: Caller, path: string, messages: readonly { readonly data: Uint8Array }[]): Promise<void> {
    const demanded = await this.demandedBy(caller, path);
    if (demanded === undefined) return;
    for (const { data } of messages) checkAgainst(demanded.schema, data, demanded.encoding);
  }

  private async demandedBy(caller: Caller, path: string): Promise<Demanded | undefined> {
    const key = `${caller.names.project}/${path}`;
    const now = this.parts.world.monotonicMs();
    const known = this.known.get(key);
    if (known !== undefined && known.untilMs > now) return known.demanded;
    const demanded = await this.read(caller, path);
    if (this.known.size >= MAX_TOPICS) this.known.clear();
    this.known.set(key, { untilMs: now + FRESH_MS, demanded });
    return demanded;
  }

  private async read(caller: Caller, path: string): Promise<Demanded | undefined> {
    const { service, definitions } = this.parts;
    const { names, access } = caller;
    const settings = schemaOf(await service.topic(names.project, path, access), definitions);
    if (settings === undefined) return undefined;
    return { schema: await named(this.parts, caller, settings.schema), encoding: encodingOf(settings.encoding) };
  }
}
