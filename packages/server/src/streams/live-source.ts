/**
 * A stream as its SSE readers see it: pages of its log, encoded as data events, each followed by a control event that tells
 * where the reader stands. The live routes make one per connection; those of the same stream and format share a feed.
 */
import type { Position } from "@sluice/protocol";
import type { LiveSource } from "../core/feed.ts";
import type { Trailer } from "../core/sse-reader.ts";
import type { World } from "../core/world.ts";
import { currentCursor } from "./cursor.ts";
import type { StreamPage } from "./reading.ts";
import { type Format, renderControl, renderData } from "./render.ts";
import type { Streams } from "./service.ts";

export class StreamSource implements LiveSource<StreamPage> {
  readonly key: string;

  constructor(
    private readonly streams: Streams,
    private readonly project: string,
    private readonly path: string,
    private readonly format: Format,
    private readonly pageBytes: number,
  ) {
    this.key = `${format} ${project}/${path}`;
  }

  async read(after: Position): Promise<StreamPage | undefined> {
    const page = await this.streams.read(this.project, this.path, after, this.pageBytes);
    return page.kind === "page" ? page : undefined;
  }

  watch(wake: () => void): () => void {
    return this.streams.watch(this.project, this.path, wake);
  }

  render({ meta, messages }: StreamPage): Uint8Array {
    return renderData(meta.config.contentType, this.format, messages);
  }

  isOver({ atTail, meta }: StreamPage): boolean {
    return atTail && meta.closed;
  }
}

/** The control event, which holds the reader's cursor: never below the floor that it came with. */
export function controlTrailer(world: World, cursorFloor: number): Trailer<StreamPage> {
  return {
    key: () => Math.max(currentCursor(world.now()), cursorFloor),
    render: ({ next, atTail, meta }, cursor) => renderControl({ next, atTail, closed: atTail && meta.closed, cursor }),
  };
}
