/**
 * A span per request, and below it one per commit that the request waits for, through `@opentelemetry/api`. Watch opens
 * it. There is a tracer only if the embedding program has set up a provider, globally or by option.
 *
 * Invariants: a span carries the route, the status and the project, never a path, a header or a payload.
 */
import {
  type Attributes,
  type Context,
  context,
  createTraceState,
  isSpanContextValid,
  ProxyTracerProvider,
  propagation,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type TextMapGetter,
  type Tracer,
  type TracerProvider,
  trace,
} from "@opentelemetry/api";
import type { Reply } from "../core/http.ts";
import type { ObservedCall } from "../doors/grpc/observer.ts";
import { status } from "../doors/grpc/status.ts";
import type { Handle, ObservedRequest } from "../doors/http/observer.ts";
import type { Around } from "../engine/keeper.ts";
import { UNKNOWN_ROUTE } from "./http-meter.ts";

export type { TracerProvider };

const NAME = "sluice";
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;
const MAX_TRACESTATE_CHARS = 512;
/** The codes of gRPC that a caller has no part in. */
const SERVER_FAULTS: ReadonlySet<number> = new Set([status.INTERNAL, status.UNAVAILABLE]);

/** What carries the context of a caller. */
interface Carrier {
  header(name: string): string | undefined;
}

const HEADERS: TextMapGetter<Carrier> = {
  keys: () => [],
  get: (request, key) => request.header(key.toLowerCase()),
};

export class RequestTracer {
  private readonly spans = new WeakMap<Carrier, Span>();

  private constructor(private readonly tracer: Tracer) {}

  /** Undefined if no provider would record a span. Decided once. */
  static open(setting: TracerProvider | false | undefined): RequestTracer | undefined {
    if (setting === false) return undefined;
    const provider = setting ?? trace.getTracerProvider();
    return isNoop(provider) ? undefined : new RequestTracer(provider.getTracer(NAME));
  }

  /** Handles the request with its span as the active one, if the embedding program has a context manager. */
  surround(request: ObservedRequest, handle: Handle): Promise<Reply> | Reply {
    return this.within(request, request.method, { "http.request.method": request.method }, () => handle(request));
  }

  /** The same for a call of gRPC. */
  surroundCall<T>(call: ObservedCall, run: () => T): T {
    const [service, method] = call.method.split(".");
    return this.within(
      call,
      call.method,
      { "rpc.system": "grpc", "rpc.service": service!, "rpc.method": method! },
      run,
    );
  }

  endCall(call: ObservedCall, code: number): void {
    const span = this.spans.get(call);
    if (span === undefined) return;
    span.setAttribute("rpc.grpc.status_code", code);
    if (call.project !== undefined) span.setAttribute("sluice.project", call.project);
    if (SERVER_FAULTS.has(code)) span.setStatus({ code: SpanStatusCode.ERROR });
    span.end();
  }

  private within<T>(carrier: Carrier, name: string, attributes: Attributes, run: () => T): T {
    const parent = parentOf(carrier);
    const span = this.tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, parent);
    this.spans.set(carrier, span);
    return context.with(trace.setSpan(parent, span), run);
  }

  end(request: ObservedRequest, status: number): void {
    const span = this.spans.get(request);
    if (span === undefined) return;
    const route = request.route ?? UNKNOWN_ROUTE;
    span.updateName(`${request.method} ${route}`);
    span.setAttribute("http.route", route);
    span.setAttribute("http.response.status_code", status);
    if (request.project !== undefined) span.setAttribute("sluice.project", request.project);
    if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
    span.end();
  }

  /** The keeper's work for a request: waiting for its turn, the rules, and the commit until it is durable. */
  readonly around: Around = async (kind, work) => {
    const active = context.active();
    if (trace.getSpan(active) === undefined) return work();
    const span = this.tracer.startSpan("commit", { attributes: { "sluice.kind": kind } }, active);
    try {
      return await work();
    } catch (fault) {
      span.setStatus({ code: SpanStatusCode.ERROR });
      throw fault;
    } finally {
      span.end();
    }
  };
}

/**
 * The API returns a proxy until a provider is registered. A fresh proxy delegates to the provider that does nothing.
 */
function isNoop(provider: TracerProvider): boolean {
  return provider instanceof ProxyTracerProvider && provider.getDelegate() === new ProxyTracerProvider().getDelegate();
}

/** Uses the propagator of the embedding program; without one, the standard header. */
function parentOf(request: Carrier): Context {
  const extracted = propagation.extract(ROOT_CONTEXT, request, HEADERS);
  if (trace.getSpanContext(extracted) !== undefined) return extracted;
  const parent = parseTraceparent(request.header("traceparent"), request.header("tracestate"));
  return parent === undefined ? extracted : trace.setSpanContext(extracted, parent);
}

export function parseTraceparent(text: string | undefined, state: string | undefined): SpanContext | undefined {
  const match = text === undefined ? null : TRACEPARENT.exec(text);
  if (match === null) return undefined;
  const isSaneState = state !== undefined && state.length <= MAX_TRACESTATE_CHARS;
  const parent: SpanContext = {
    traceId: match[1]!,
    spanId: match[2]!,
    traceFlags: Number.parseInt(match[3]!, 16),
    isRemote: true,
    ...(isSaneState ? { traceState: createTraceState(state) } : {}),
  };
  return isSpanContextValid(parent) ? parent : undefined;
}
