/** The live scenarios, on memory and on disk, and on two nodes that share a storage. */
import { diskStorage } from "./disk-storage.ts";
import { liveOfTwo, liveScenarios } from "./scenarios/live.ts";
import { describeSeeds } from "./seeds.ts";
import { memoryStorage, sharedStorage } from "./storage.ts";

describeSeeds("Live in simulation, on memory", memoryStorage, liveScenarios, 3);
describeSeeds("Live in simulation, on disk", diskStorage, liveScenarios.slice(-1), 3, { isRepeated: false });
describeSeeds("Live in simulation, on two nodes", sharedStorage, liveOfTwo, 3, { isRepeated: false });
