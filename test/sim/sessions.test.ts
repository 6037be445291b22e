/** The session scenarios, on memory and on disk. */
import { diskStorage } from "./disk-storage.ts";
import { sessionScenarios } from "./scenarios/sessions.ts";
import { describeSeeds } from "./seeds.ts";
import { memoryStorage } from "./storage.ts";

describeSeeds("Sessions in simulation, on memory", memoryStorage, sessionScenarios, 300);
describeSeeds("Sessions in simulation, on disk", diskStorage, sessionScenarios, 100);
