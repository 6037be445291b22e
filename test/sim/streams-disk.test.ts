/** The stream scenarios on the disk engine: kills and power cuts at any event, a full drive, flushes that fail. */
import { diskStorage } from "./disk-storage.ts";
import { streamScenarios } from "./scenarios/streams.ts";
import { describeSeeds } from "./seeds.ts";

describeSeeds("Streams in simulation, on disk", diskStorage, streamScenarios, 3);
