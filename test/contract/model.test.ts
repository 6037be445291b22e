/** Random operations compare the disk engine with memory. */
import { describeModel } from "./model/describe.ts";
import { diskOpener, EAGER } from "./open-disk.ts";

describeModel("disk", diskOpener("inline"));
describeModel("disk that reads from its store", diskOpener("inline", EAGER));
if (process.env.SLUICE_DEEP === "1") describeModel("disk with its thread", diskOpener("thread", EAGER));
