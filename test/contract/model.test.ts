/** The disk engine compared with memory by random operations. */
import { describeModel } from "./model/describe.ts";
import { diskOpener, EAGER } from "./open-disk.ts";

describeModel("disk", diskOpener("inline"));
describeModel("disk that reads from its store", diskOpener("inline", EAGER));
if (process.env.SLUICE_DEEP === "1") describeModel("disk with its thread", diskOpener("thread", EAGER));
