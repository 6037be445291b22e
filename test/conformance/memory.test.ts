import { describeConformance } from "./suite.ts";

describeConformance("memory", () => ({ data: undefined }));
