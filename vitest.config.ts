import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const src = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** The longest files, which start first so that they do not run alone at the end. */
const LONG = [
  "test/packages/",
  "test/chaos/",
  "test/cli/commands",
  "test/failover/",
  "test/sim/",
  "test/cli/endings",
  "test/docs/docs",
  "test/contract/redis.",
  "test/examples/live-pages",
  "test/conformance/",
  "test/crash/power-cut",
  "test/sessions/faults-and-kills",
  "test/crash/kill",
  "test/crash/damaged-pages",
  "test/cli/",
  "test/examples/",
  "test/e2e/fuzz",
  "test/e2e/memory",
  "test/e2e/signals",
  "test/client/resumable-stream",
  "test/sessions/cheap-copies",
  "test/sessions/kill",
  "test/channels/kill",
  "test/sessions/server-process",
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const found = LONG.findIndex((part) => moduleId.includes(part));
      return found < 0 ? LONG.length : found;
    };
    return [...(await super.sort(files))].sort((a, b) => rank(a) - rank(b));
  }
}

export default defineConfig({
  resolve: {
    alias: {
      "@sluice/client/pubsub": src("packages/client/src/pubsub/index.ts"),
      "@sluice/client/react": src("packages/client/src/react.ts"),
      "@sluice/client/resumable-stream": src("packages/client/src/resumable-stream.ts"),
      "@sluice/client": src("packages/client/src/index.ts"),
      "@sluice/protocol": src("packages/protocol/src/index.ts"),
      "@sluice/server/pubsub": src("packages/server/src/pubsub/index.ts"),
      "@sluice/server": src("packages/server/src/index.ts"),
      "./start-thread.ts": src("test/support/start-thread.ts"),
    },
  },
  test: {
    include: ["test/**/*.test.ts", "packages/*/src/**/*.test.ts"],
    globalSetup: ["shared-redis.ts", "server-bundle.ts", "start-thread.ts"].map((name) => `test/support/${name}`),
    // A machine that is busy with other work is several times slower.
    testTimeout: 90_000,
    hookTimeout: 120_000,
    pool: "forks",
    // No test changes global state, so files may share a process; isolating each cost a sixth of the time.
    isolate: false,
    sequence: { sequencer: LongestFirst },
    // More than the processors, because many tests mostly wait.
    maxWorkers: 4,
  },
});
