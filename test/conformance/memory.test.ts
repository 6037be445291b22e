/** The public suite on memory, without the lane: Node's own parser takes every request. Disk and Redis have the lane. */
import { describeConformance } from "./suite.ts";

describeConformance("memory, without the lane", () => ({ memory: true, http: { lane: false } }));
