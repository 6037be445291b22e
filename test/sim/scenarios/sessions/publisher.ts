/**
 * The publishers of a source, over both routes, with and without producer numbers; and the client that deletes the source
 * and creates it anew. The sessions scenario starts them.
 */
import { type Position, parseOffset } from "@sluice/protocol";
import type { Caller } from "./caller.ts";
import { encode } from "./messages.ts";
import type { SourceSpec } from "./owner.ts";
import type { Publish } from "./story.ts";

export class Publisher {
  private count = 0;
  private producers = 0;
  private producerSeq = 0;

  constructor(
    private readonly caller: Caller,
    private readonly source: SourceSpec,
    private readonly sizes: readonly number[],
    /** The offsets that publishers got, by stream; shared. */
    private readonly told: Map<string, Position[]>,
    /** Whether a repetition can only meet the same stream. */
    private readonly repeats: boolean,
  ) {}

  async act(messages: number): Promise<void> {
    const { random, world } = this.caller.stage;
    const isProducer = this.repeats && random.chance(0.5);
    while (this.count < messages) {
      await this.publish(random.chance(0.6) ? "publish" : "stream", isProducer);
      await world.sleep(random.between(0, random.pick([0, 20, 300])));
    }
  }

  /** Publishes one or more messages. Producers repeat until they get an answer. */
  async publish(way: "publish" | "stream", isProducer = false): Promise<Publish> {
    const { story, stage, name } = this.caller;
    const { random, world } = stage;
    const { path, contentType } = this.source;
    const size = contentType === "application/json" ? random.between(1, 3) : 1;
    const ids = Array.from({ length: size }, () => `${path}.${name}.${++this.count}.${random.pick(this.sizes)}`);
    const publish: Publish = { ...story.begin(), source: path, ids, isAcknowledged: false, isCopied: false };
    story.publishes.push(publish);
    for (;;) {
      const headers: Record<string, string> = { "content-type": contentType };
      if (isProducer) {
        headers["producer-id"] = `${name}-${this.producers}`;
        headers["producer-epoch"] = "0";
        headers["producer-seq"] = String(this.producerSeq);
      }
      const told = await this.caller.once({
        method: "POST",
        path: `/v1/default/${way}/${path}`,
        headers,
        body: encode(contentType, ids),
      });
      if (told.kind !== "reply") {
        if (told.kind === "unsent" || isProducer) await world.sleep(random.between(1, 300));
        if (told.kind === "unsent" || isProducer) continue;
        // The publish may have happened; the outcome stays unknown.
        break;
      }
      story.end(publish);
      publish.isAcknowledged = told.status < 300;
      if (publish.isAcknowledged) this.acknowledged(publish, told.header);
      else if (told.status !== 404 && told.status !== 409) story.object(`${ids} was refused: ${told.text}`);
      this.producerSeq++;
      // Numbers start again with a stream that is created anew.
      if (!publish.isAcknowledged) {
        this.producers++;
        this.producerSeq = 0;
      }
      break;
    }
    return publish;
  }

  private acknowledged(publish: Publish, header: (name: string) => string | undefined): void {
    const position = parseOffset(header("stream-next-offset")!)!;
    const known = this.told.get(publish.source) ?? [];
    this.told.set(publish.source, [...known, position]);
    const isInline = header("stream-fanout-mode") === "inline";
    publish.isCopied = isInline && header("stream-fanout-failures") === "0";
  }
}

export async function create(caller: Caller, { path, contentType, maxMessages }: SourceSpec): Promise<void> {
  const headers: Record<string, string> = { "content-type": contentType };
  if (maxMessages !== undefined) headers["stream-max-messages"] = String(maxMessages);
  await caller.insist({ method: "PUT", path: `/v1/default/stream/${path}`, headers });
}

/** Deletes the source and creates it anew, several times. */
export async function replace(caller: Caller, source: SourceSpec, times: number): Promise<void> {
  const { random, world } = caller.stage;
  for (let i = 0; i < times; i++) {
    await world.sleep(random.between(10, random.pick([300, 3_000])));
    const deletion = { ...caller.story.begin(), source: source.path };
    caller.story.deletions.push(deletion);
    await caller.insist({ method: "DELETE", path: `/v1/default/stream/${source.path}` });
    caller.story.end(deletion);
    await world.sleep(random.between(0, random.pick([0, 500])));
    await create(caller, source);
  }
}
