/**
 * The contract suite on the disk engine, which writes to its store at once and reads from there: every durable behavior is
 * checked again after a restart. The model's random operations show both ways to read.
 */
import { describeEngine } from "./engine-suite.ts";
import { diskOpener, EAGER } from "./open-disk.ts";

describeEngine("disk that reads from its store", diskOpener("inline", EAGER));
if (process.env.SLUICE_DEEP === "1") {
  describeEngine("disk", diskOpener("inline"));
  describeEngine("disk with its thread", diskOpener("thread", EAGER));
}
