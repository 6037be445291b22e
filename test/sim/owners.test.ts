/** The ownership scenarios, on memory and on disk, and on three nodes that share a storage. */
import { diskStorage } from "./disk-storage.ts";
import { ownersOfOne, ownersOfThree } from "./scenarios/owners.ts";
import { describeSeeds } from "./seeds.ts";
import { memoryStorage, sharedStorage } from "./storage.ts";

describeSeeds("Owners in simulation, on memory", memoryStorage, ownersOfOne, 10);
describeSeeds("Owners in simulation, on disk", diskStorage, ownersOfOne, 8, { isRepeated: false });
describeSeeds("Owners in simulation, on three nodes", sharedStorage, ownersOfThree, 15);
