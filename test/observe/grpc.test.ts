/** What a server tells of its gRPC calls: metrics, log lines and spans; and how it ends them when it shuts down. */
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { createServer } from "@sluice/server";
import { expect, it, onTestFinished } from "vitest";
import { eventually } from "../e2e/server.ts";
import { bytes, frame, RawClient, text } from "../grpc/raw-client.ts";

const TOPIC = "projects/p/topics/secret-name";
const SUBSCRIPTION = "projects/p/subscriptions/s";

async function observedServer() {
  const lines: Record<string, unknown>[] = [];
  const write = (fields: object, message: string) => void lines.push({ message, ...fields });
  const logger = { info: write, warn: write, error: write };
  const exporter = new InMemorySpanExporter();
  const tracing = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const server = await createServer({ port: 0, memory: true, grpcPort: 0, log: { logger }, tracing, drainMs: 5_000 });
  onTestFinished(() => server.close());
  return { server, client: RawClient.to(server.grpcPort!), lines, spans: () => exporter.getFinishedSpans() };
}

it("calls are counted by method and code, logged by method, and traced below the caller's span", async () => {
  const { server, client, lines, spans } = await observedServer();
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  await client.call("Publisher/CreateTopic", text(1, TOPIC), { traceparent, "x-request-id": "my-id" });
  await client.call("Publisher/CreateTopic", text(1, TOPIC));
  await client.call("Publisher/Nothing", text(1, TOPIC));
  await client.call("Subscriber/CreateSubscription", Buffer.concat([text(1, SUBSCRIPTION), text(2, TOPIC)]));
  const { stream } = client.open("Subscriber/StreamingPull");
  stream.write(frame(Buffer.concat([text(1, SUBSCRIPTION), Buffer.from([5 * 8, 10])])));
  await eventually(async () => expect(await server.metrics()).toContain("sluice_grpc_streams 1\n"));
  stream.close(8);
  await eventually(async () => expect(await server.metrics()).toContain("sluice_grpc_streams 0\n"));
  const metrics = await server.metrics();
  for (const line of [
    'sluice_grpc_requests_total{method="Publisher.CreateTopic",code="OK"} 1',
    'sluice_grpc_requests_total{method="Publisher.CreateTopic",code="ALREADY_EXISTS"} 1',
    'sluice_grpc_requests_total{method="other",code="UNIMPLEMENTED"} 1',
    'sluice_grpc_requests_total{method="Subscriber.StreamingPull",code="CANCELLED"} 1',
    'sluice_grpc_request_seconds_count{method="Publisher.CreateTopic"} 2',
    "sluice_grpc_requests_active 0",
    "sluice_grpc_connections 1",
  ]) {
    expect(metrics).toContain(line);
  }
  expect(metrics).not.toContain('sluice_grpc_request_seconds_count{method="Subscriber.StreamingPull"}');
  const requests = lines.filter(({ message }) => message === "request");
  expect(requests[0]).toMatchObject({ id: "my-id", method: "gRPC", route: "Publisher.CreateTopic", status: 0 });
  expect(requests[0]).toMatchObject({ project: "p" });
  expect(requests.at(-1)).toMatchObject({ route: "Subscriber.StreamingPull", status: 1, end: "gone" });
  expect(JSON.stringify(lines)).not.toContain("secret-name");
  const span = spans().find(({ name }) => name === "Publisher.CreateTopic")!;
  expect(span.spanContext().traceId).toBe("0af7651916cd43dd8448eb211c80319c");
  expect(span.attributes).toMatchObject({ "rpc.system": "grpc", "rpc.grpc.status_code": 0, "sluice.project": "p" });
});

it("at shutdown streams are told to connect again, and calls in flight are answered", async () => {
  const { server, client } = await observedServer();
  await client.call("Publisher/CreateTopic", text(1, TOPIC));
  await client.call("Subscriber/CreateSubscription", Buffer.concat([text(1, SUBSCRIPTION), text(2, TOPIC)]));
  const streaming = client.open("Subscriber/StreamingPull");
  streaming.stream.write(frame(Buffer.concat([text(1, SUBSCRIPTION), Buffer.from([5 * 8, 10])])));
  const waiting = client.open("Subscriber/Pull");
  waiting.stream.end(frame(Buffer.concat([text(1, SUBSCRIPTION), Buffer.from([3 * 8, 1])])));
  const message = bytes(2, bytes(1, Buffer.from("a")));
  const publish = client.open("Publisher/Publish");
  const body = frame(Buffer.concat([text(1, TOPIC), message]));
  publish.stream.write(body.subarray(0, 10));
  await eventually(async () => expect(await server.metrics()).toContain("sluice_grpc_requests_active 3\n"));
  const closed = server.close();
  expect((await streaming.outcome).code).toBe(14);
  expect((await waiting.outcome).code).toBe(0);
  publish.stream.end(body.subarray(10));
  expect((await publish.outcome).code).toBe(0);
  await closed;
  await eventually(() => expect(client.session.destroyed).toBe(true));
});
