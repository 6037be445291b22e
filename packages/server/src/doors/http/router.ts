/**
 * A request's way through the HTTP door: parse the address, authorise what it asks for, call the feature that answers it. Knows
 * no address itself (address.ts does) and no rules of any feature.
 */
import type { Gate } from "../../auth/gate.ts";
import type { Headers, HttpRequest, Reply } from "../../core/http.ts";
import { renderRefusal } from "../../wakes/refusals.ts";
import { locate, type Place, parseCall } from "./address.ts";
import type { Handlers } from "./handlers.ts";

export interface Features {
  /** Undefined when everybody may do everything. */
  readonly gate: Gate | undefined;
  readonly handlers: Handlers;
  /** What answers OPTIONS, wherever. */
  readonly preflight: Headers;
}

/** Throws a Refusal for what it does not know and for whom it does not admit. */
export function route(features: Features, request: HttpRequest): Promise<Reply> | Reply {
  if (request.method === "OPTIONS") {
    request.route = "preflight";
    return { status: 204, headers: [...features.preflight] };
  }
  const place = locate(request.path);
  request.project = place.project;
  if (place.kind === "control") return answerControl(features, place, request);
  return answer(features, place, request);
}

function answer(features: Features, place: Place, request: HttpRequest): Promise<Reply> | Reply {
  const call = parseCall(place, request);
  request.route = call.action;
  const handle = features.handlers[call.action];
  const admitted = features.gate?.admit(call, request);
  return admitted === undefined ? handle(call, request) : admitted.then(() => handle(call, request));
}

/** Its clients look for refusals in a shape of the protocol's own, beside ours. */
async function answerControl(features: Features, place: Place, request: HttpRequest): Promise<Reply> {
  try {
    return await answer(features, place, request);
  } catch (fault) {
    const reply = renderRefusal(fault);
    if (reply) return reply;
    throw fault;
  }
}
