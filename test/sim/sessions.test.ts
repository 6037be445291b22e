/** The session scenarios, on memory and on disk, and on two nodes that share a storage. */
import { diskStorage } from "./disk-storage.ts";
import { sessionScenarios, sessionsOfTwo } from "./scenarios/sessions.ts";
import { describeSeeds } from "./seeds.ts";
import { memoryStorage, sharedStorage } from "./storage.ts";

describeSeeds("Sessions in simulation, on memory", memoryStorage, sessionScenarios, 5);
describeSeeds("Sessions in simulation, on disk", diskStorage, sessionScenarios, 3, { isRepeated: false });
describeSeeds("Sessions in simulation, on two nodes", sharedStorage, sessionsOfTwo, 3, { isRepeated: false });
