/** The public Durable Streams suite against a running server of ours, on the engine that the caller chooses. */
import { runConformanceTests } from "@durable-streams/server-conformance-tests";
import { createServer, type RunningServer, type ServerOptions } from "@sluice/server";
import { afterAll, beforeAll, describe } from "vitest";

export function describeConformance(engine: string, options: () => ServerOptions): void {
  describe(`Durable Streams on ${engine}`, () => {
    const config = { baseUrl: "", longPollTimeoutMs: 500, subscriptions: true };
    let server: RunningServer;
    beforeAll(async () => {
      // Comments come all the time, so that the suite shows that they disturb no event.
      const often = { longPollMs: 500, tail: { heartbeatMs: 20 } };
      server = await createServer({ host: "127.0.0.1", port: 0, log: false, ...often, ...options() });
      config.baseUrl = server.url;
    });
    afterAll(() => server.close());
    runConformanceTests(config);
  });
}
