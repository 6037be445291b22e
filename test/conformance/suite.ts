/**
 * Runs the public Durable Streams suite against a running Sluice server. Each test file of this folder calls it with an
 * engine.
 *
 * Invariants: the suite runs unchanged, with every optional part enabled.
 */
import { runConformanceTests } from "@durable-streams/server-conformance-tests";
import { createServer, type RunningServer, type ServerOptions } from "@sluice/server";
import { afterAll, beforeAll, describe } from "vitest";

export function describeConformance(engine: string, options: () => ServerOptions): void {
  describe(`Durable Streams on ${engine}`, () => {
    const config = { baseUrl: "", longPollTimeoutMs: 500, subscriptions: true };
    let server: RunningServer;
    beforeAll(async () => {
      // Comments arrive every 20 ms, which shows that they disturb no event.
      const often = { longPollMs: 500, tail: { heartbeatMs: 20 } };
      server = await createServer({ host: "127.0.0.1", port: 0, log: false, ...often, ...options() });
      config.baseUrl = server.url;
    });
    afterAll(() => server.close());
    runConformanceTests(config);
  });
}
