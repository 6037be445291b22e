/**
 * A stream as its followers see it: pages of its log, and the SSE codecs of both formats. A page is one data event and
 * one control event with the reader's position. The tail routes create one log per connection; logs of the same stream
 * share a feed.
 */
import type { Position } from "@sluice/protocol";
import type { Codec, Log } from "../core/feed.ts";
import type { World } from "../core/world.ts";
import { currentCursor } from "./cursor.ts";
import type { StreamPage } from "./reading.ts";
import { type Format, renderControl, renderData } from "./render.ts";
import type { Streams } from "./service.ts";

export class StreamLog implements Log<StreamPage> {
  readonly key: string;

  constructor(
    private readonly streams: Streams,
    private readonly project: string,
    private readonly path: string,
    private readonly pageBytes: number,
  ) {
    this.key = `${project}/${path}`;
  }

  async read(after: Position): Promise<StreamPage | undefined> {
    const page = await this.streams.read(this.project, this.path, after, this.pageBytes);
    return page.kind === "page" ? page : undefined;
  }

  watch(wake: () => void): () => void {
    return this.streams.watch(this.project, this.path, wake);
  }

  isOver({ atTail, meta }: StreamPage): boolean {
    return atTail && meta.closed;
  }
}

/** The variant of a page is the cursor in its control event. */
function sseCodec(format: Format): Codec<StreamPage> {
  return {
    encode: ({ meta, messages }) => renderData(meta.config.contentType, format, messages),
    trailer: ({ next, atTail, meta }, cursor) => renderControl({ next, atTail, closed: atTail && meta.closed, cursor }),
  };
}

export const SSE_CODECS: Readonly<Record<Format, Codec<StreamPage>>> = {
  raw: sseCodec("raw"),
  envelope: sseCodec("envelope"),
};

/** The cursor for a reader: the current one, and never below the floor that the reader came with. */
export function cursorFrom(world: World, floor: number): () => number {
  return () => Math.max(currentCursor(world.now()), floor);
}
