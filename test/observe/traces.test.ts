import { AsyncLocalStorage } from "node:async_hooks";
import { type Context, type ContextManager, context, ROOT_CONTEXT, SpanStatusCode, trace } from "@opentelemetry/api";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { describe, expect, it, onTestFinished } from "vitest";
import { parseTraceparent, RequestTracer } from "../../packages/server/src/observe/traces.ts";
import { appended, createdStream, eventually, serverForTest } from "../e2e/server.ts";

function memory() {
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  return { exporter, provider };
}

/** The context manager of a program with tracing: the active span follows asynchronous work. */
class FollowingManager implements ContextManager {
  private readonly storage = new AsyncLocalStorage<Context>();
  active = () => this.storage.getStore() ?? ROOT_CONTEXT;
  with: ContextManager["with"] = (active, task, self, ...args) =>
    this.storage.run(active, () => task.apply(self as never, args));
  bind: ContextManager["bind"] = (_, target) => target;
  enable = () => this;
  disable = () => this;
}

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";

describe("traces", () => {
  it("have a span per request with route, method and status, under the caller's span", async () => {
    const { exporter, provider } = memory();
    const fixture = await serverForTest("memory", { tracing: provider });
    const url = await createdStream(fixture, "secret", "text/plain");
    exporter.reset();
    await (await fetch(`${url}?offset=-1`, { headers: { traceparent: `00-${TRACE}-${PARENT}-01` } })).text();
    await (await fetch(`${fixture.url}/nowhere`)).text();
    const [read, lost] = exporter.getFinishedSpans();
    expect(read!.spanContext().traceId).toBe(TRACE);
    expect(read!.parentSpanContext?.spanId).toBe(PARENT);
    expect(read!.name).toMatch(/^GET /);
    expect(read!.attributes).toMatchObject({ "http.request.method": "GET", "http.response.status_code": 200 });
    expect(lost!.attributes["http.response.status_code"]).toBe(404);
    expect(lost!.parentSpanContext).toBeUndefined();
    expect(lost!.status.code).toBe(SpanStatusCode.UNSET);
    expect(JSON.stringify([read!.name, read!.attributes])).not.toContain("secret");
  });

  it("show the commit below its request when the program tracks the active span", async () => {
    const { exporter, provider } = memory();
    trace.setGlobalTracerProvider(provider);
    context.setGlobalContextManager(new FollowingManager());
    onTestFinished(() => {
      trace.disable();
      context.disable();
    });
    const fixture = await serverForTest("disk");
    const url = await createdStream(fixture, "a", "text/plain");
    exporter.reset();
    await appended(url, "text/plain", "x");
    const [commit, request] = exporter.getFinishedSpans();
    expect(commit!.name).toBe("commit");
    expect(commit!.attributes).toEqual({ "sluice.kind": "stream" });
    expect(commit!.parentSpanContext?.spanId).toBe(request!.spanContext().spanId);
    expect(request!.name).toMatch(/^POST /);
  });

  it("end with the live reader", async () => {
    const { exporter, provider } = memory();
    const fixture = await serverForTest("memory", { tracing: provider, tail: { sseMs: 50 } });
    const url = await createdStream(fixture, "a", "text/plain");
    exporter.reset();
    await (await fetch(`${url}?offset=now&live=sse`)).text();
    await eventually(() => expect(exporter.getFinishedSpans()).toHaveLength(1));
  });

  it("are not made when no provider records them", () => {
    expect(RequestTracer.open(undefined)).toBeUndefined();
    expect(RequestTracer.open(false)).toBeUndefined();
    const { provider } = memory();
    expect(RequestTracer.open(provider)).toBeDefined();
    trace.setGlobalTracerProvider(provider);
    onTestFinished(() => trace.disable());
    expect(RequestTracer.open(undefined)).toBeDefined();
    expect(RequestTracer.open(false)).toBeUndefined();
  });

  it("ignore a malformed header for the caller's span", () => {
    expect(parseTraceparent(`00-${TRACE}-${PARENT}-01`, "a=1")?.traceState?.get("a")).toBe("1");
    const zero = "0".repeat(32);
    for (const text of [
      undefined,
      "",
      `01-${TRACE}-${PARENT}-01`,
      `00-${zero}-${PARENT}-01`,
      `00-${TRACE}-${PARENT}`,
      `00-${TRACE.toUpperCase()}-${PARENT}-01`,
      `00-${TRACE}-${PARENT}-01-more`,
    ]) {
      expect(parseTraceparent(text, undefined), text).toBeUndefined();
    }
    expect(parseTraceparent(`00-${TRACE}-${PARENT}-00`, "x".repeat(10_000))?.traceState).toBeUndefined();
  });
});
