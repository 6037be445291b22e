/** The group scenarios, on memory and on disk, and on three nodes that share a storage. */
import { diskStorage } from "./disk-storage.ts";
import { groupsOfOne, groupsOfThree } from "./scenarios/groups.ts";
import { describeSeeds } from "./seeds.ts";
import { memoryStorage, sharedStorage } from "./storage.ts";

describeSeeds("Groups in simulation, on memory", memoryStorage, groupsOfOne, 4);
describeSeeds("Groups in simulation, on disk", diskStorage, groupsOfOne, 3, { isRepeated: false });
describeSeeds("Groups in simulation, on three nodes", sharedStorage, groupsOfThree, 6, { isRepeated: false });
