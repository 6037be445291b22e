import { describeConformance } from "./suite.ts";

describeConformance("memory", () => ({ memory: true }));
