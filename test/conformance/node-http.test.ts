/** The public suite without the lane: Node's own parser takes every request. The other files of this folder run it with the lane. */
import { describeConformance } from "./suite.ts";

describeConformance("memory, without the lane", () => ({ memory: true, http: { lane: false } }));
