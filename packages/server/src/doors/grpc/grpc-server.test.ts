import { connect } from "node:http2";
import { type AddressInfo, createServer } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { manualWorld } from "../../../../../test/support/world.ts";
import { GRPC_LIMITS } from "./defaults.ts";
import { GrpcServer } from "./grpc-server.ts";

it("a session that begins after the close of its server is closed too", async () => {
  const server = new GrpcServer({ limits: GRPC_LIMITS, world: manualWorld(1) } as never);
  const listener = createServer((socket) => server.take(socket));
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void listener.close());
  server.close();
  const session = connect(`http://127.0.0.1:${(listener.address() as AddressInfo).port}`);
  onTestFinished(() => session.destroy());
  session.on("error", () => {});
  await expect.poll(() => session.closed).toBe(true);
});
