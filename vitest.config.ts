import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const src = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  resolve: {
    alias: {
      "@sluice/client/resumable-stream": src("packages/client/src/resumable-stream.ts"),
      "@sluice/client": src("packages/client/src/index.ts"),
      "@sluice/protocol": src("packages/protocol/src/index.ts"),
      "@sluice/server": src("packages/server/src/index.ts"),
    },
  },
  test: {
    include: ["test/**/*.test.ts", "packages/*/src/**/*.test.ts"],
    globalSetup: ["test/support/shared-redis.ts"],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    pool: "forks",
    // One more than the processors that it must do with: many tests wait for something to happen most of the time.
    maxWorkers: 3,
  },
});
