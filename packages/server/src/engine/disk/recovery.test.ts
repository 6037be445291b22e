import { describe, expect, it } from "vitest";
import type { File, Files } from "./files.ts";
import { chainSeed, encodeSegmentHeader, FRAME_HEADER_BYTES, finishFrame, frameBytes } from "./frame.ts";
import { recover } from "./recovery.ts";
import { segmentName } from "./segments.ts";

/** A segment of frames, each of one commit with a payload of its own. By default each names its predecessor. */
class Segment {
  private readonly parts: Buffer[];
  private readonly salt: number;
  previous: number;

  constructor(
    readonly number: number,
    follows?: Segment,
  ) {
    this.salt = 1_000 + number;
    const header = { number, salt: this.salt, chainStart: follows === undefined };
    this.parts = [encodeSegmentHeader(header)];
    this.previous = follows?.previous ?? chainSeed(header);
  }

  frame(firstLsn: number, previous = this.previous): this {
    const payload = Buffer.from(`commit ${firstLsn} of ${this.number}`);
    const bytes = Buffer.alloc(frameBytes(payload.length));
    bytes.set(payload, FRAME_HEADER_BYTES);
    this.previous = finishFrame(bytes, payload.length, { firstLsn, count: 1, previous }, this.salt);
    this.parts.push(bytes);
    return this;
  }

  get bytes(): Buffer {
    return Buffer.concat(this.parts);
  }
}

/** The lsns that recovery finds for a store that has the commits up to `through`. */
async function owed(segments: readonly Segment[], through = 0): Promise<number[]> {
  const contents = new Map(segments.map(({ number, bytes }) => [segmentName(number), bytes]));
  const files = {
    names: async () => [...contents.keys()],
    open: async (path: string) => {
      const bytes = contents.get(path.slice("dir/".length))!;
      const file: Partial<File> = {
        size: async () => bytes.length,
        read: async (into) => bytes.copy(into),
        close: async () => {},
      };
      return file as File;
    },
  } as Partial<Files> as Files;
  return (await recover(files, "dir", through)).owed.map(({ firstLsn }) => firstLsn);
}

describe("the journal", () => {
  it("is read from the first commit that the store lacks, across segments", async () => {
    const first = new Segment(1).frame(1).frame(2);
    const second = new Segment(2, first).frame(3);
    expect(await owed([first, second])).toEqual([1, 2, 3]);
    expect(await owed([first, second], 2)).toEqual([3]);
    expect(await owed([first, second], 3)).toEqual([]);
  });

  it.each([
    ["after a frame", [new Segment(1).frame(1).frame(2, 7).frame(3)]],
    ["at the start of its chain", [new Segment(1).frame(1, 7)]],
    ["after another segment", [new Segment(1).frame(1), new Segment(2, new Segment(1)).frame(2)]],
  ])("with a valid frame that names another predecessor is refused: %s", async (_, segments) => {
    await expect(owed(segments)).rejects.toMatchObject({ code: "data-damaged" });
  });

  it("without a commit in its midst is refused", async () => {
    await expect(owed([new Segment(1).frame(1).frame(3)])).rejects.toMatchObject({ code: "data-damaged" });
  });
});
