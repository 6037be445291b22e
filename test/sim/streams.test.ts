/** The stream scenarios on the memory engine: every server process opens the same data. */
import { streamScenarios } from "./scenarios/streams.ts";
import { describeSeeds } from "./seeds.ts";
import { memoryStorage } from "./storage.ts";

describeSeeds("Streams in simulation, on memory", memoryStorage, streamScenarios, 5);
