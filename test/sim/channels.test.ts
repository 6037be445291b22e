/** The channel scenarios, on memory and on disk. */
import { diskStorage } from "./disk-storage.ts";
import { channelScenarios } from "./scenarios/channels.ts";
import { describeSeeds } from "./seeds.ts";
import { memoryStorage } from "./storage.ts";

describeSeeds("Channels in simulation, on memory", memoryStorage, channelScenarios, 5);
describeSeeds("Channels in simulation, on disk", diskStorage, channelScenarios, 3, { isRepeated: false });
