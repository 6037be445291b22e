import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { describeConformance } from "./suite.ts";

const data = mkdtempSync(join(tmpdir(), "sluice-conformance-"));
describeConformance("disk", () => ({ data }));
afterAll(() => rmSync(data, { recursive: true, force: true }));
