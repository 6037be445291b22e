// Measures fixed records written into a preallocated file with one fdatasync per 64 records. The append-batch scenario compares
// with it. It is a yardstick and no ceiling: a server that syncs more records at once can be faster.

import { join } from "node:path";
import { runToEnd } from "../child.ts";

export const RAW_SEGMENT = "raw segment, fdatasync per 64 records";

const PROGRAM = new URL("raw-segment-writer.mjs", import.meta.url).pathname;

export async function writeRawSegment(directory: string, seconds: number): Promise<number> {
  const args = [PROGRAM, join(directory, "segment"), String(seconds)];
  return Number(await runToEnd(process.execPath, args, (seconds + 60) * 1000));
}
