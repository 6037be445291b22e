// The rate of a disk whose writer does nothing else: 256-byte records, 64 to a write, each write followed by fdatasync, into a
// file whose blocks exist already. peers/raw-segment.ts starts it with a file and a number of seconds; it prints the records per
// second. At the end of the file it continues from the beginning.

import { closeSync, fdatasyncSync, fsyncSync, openSync, writeSync } from "node:fs";

const RECORD_BYTES = 256;
const RECORDS_PER_SYNC = 64;
const SEGMENT_BYTES = 64 * 1024 * 1024;

const [path, secondsText] = process.argv.slice(2);
const record = Buffer.alloc(RECORD_BYTES, "r");
const batch = Buffer.alloc(RECORD_BYTES * RECORDS_PER_SYNC);

const file = openSync(path, "w");
const blank = Buffer.alloc(1024 * 1024);
for (let at = 0; at < SEGMENT_BYTES; at += blank.length) writeSync(file, blank, 0, blank.length, at);
fsyncSync(file);

const startedAt = performance.now();
const endsAt = startedAt + Number(secondsText) * 1000;
let records = 0;
let position = 0;
while (performance.now() < endsAt) {
  for (let i = 0; i < RECORDS_PER_SYNC; i++) {
    record.writeUInt32LE((records + i) >>> 0, 0);
    record.copy(batch, i * RECORD_BYTES);
  }
  writeSync(file, batch, 0, batch.length, position);
  fdatasyncSync(file);
  records += RECORDS_PER_SYNC;
  position = (position + batch.length) % SEGMENT_BYTES;
}
console.log(records / ((performance.now() - startedAt) / 1000));
closeSync(file);
