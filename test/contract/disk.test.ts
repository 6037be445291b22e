/** The contract suite on the disk engine: every durable behavior is checked again after a restart. */
import { describeEngine } from "./engine-suite.ts";
import { diskOpener, EAGER } from "./open-disk.ts";

describeEngine("disk", diskOpener("inline"));
describeEngine("disk that reads from its store", diskOpener("inline", EAGER));
if (process.env.SLUICE_DEEP === "1") describeEngine("disk with its thread", diskOpener("thread", EAGER));
