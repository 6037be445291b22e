/** What an example runs on in a test: Sluice in this process and in memory, with a proxy between it and the browser. */
import { createServer as createSluice } from "@sluice/server";
import { onTestFinished } from "vitest";
import { PageServer } from "../../examples/web/page-server.ts";
import { TcpProxy } from "../support/tcp-proxy.ts";

/** The example itself does not use the proxy. Everything ends with the test. */
export async function openStage() {
  const web = await PageServer.listen(0);
  const server = await createSluice({ port: 0, memory: true });
  const wire = await TcpProxy.open(0, Number(new URL(server.url).port));
  onTestFinished(async () => {
    await wire.close();
    await web.close();
    await server.close();
  });
  return { stage: { web, sluiceUrl: server.url, publicUrl: `http://127.0.0.1:${wire.port}` }, server, wire };
}
