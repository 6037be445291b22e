/**
 * `Subscriber.Pull`: waits for a first message over a stream of its own, which ends with the call.
 *
 * Invariants: nothing is leased after the caller has left or its deadline is near. A call counts among the clients that wait.
 */
import { Refusal } from "../../core/refusal.ts";
import type { Delivery, PullStream } from "../../pull/contract.ts";
import type { Caller, MethodParts } from "./caller.ts";
import { receivedMessage } from "./deliveries.ts";
import type { GrpcCall } from "./grpc-call.ts";
import { endOf } from "./stream-end.ts";

export interface PullWire {
  readonly subscription: string;
  readonly returnImmediately: boolean;
  readonly maxMessages: number;
}

export async function pullCall(
  parts: MethodParts,
  { names, access }: Caller,
  { subscription, returnImmediately, maxMessages }: PullWire,
  call: GrpcCall,
): Promise<object> {
  const { service, audience, world, limits } = parts;
  const { project } = names;
  const id = names.subscription(subscription);
  if (maxMessages < 1) throw new Refusal("bad-request", `Invalid max_messages given: ${maxMessages} is not positive.`);
  const told = await service.get(project, id, access);
  if (call.isGone) return { receivedMessages: [] };
  const leave = audience.enter(project, call);
  let stream: PullStream | undefined;
  let cancel = () => {};
  let isOver = false;
  const guest = { sendHome: () => {} };
  try {
    const deliveries = await new Promise<readonly Delivery[]>((resolve, reject) => {
      const nothing = () => resolve([]);
      const { pullWaitMs, pullMarginMs } = limits;
      cancel = world.after(Math.max(0, Math.min(pullWaitMs, call.leftMs - pullMarginMs)), nothing);
      call.onGone(nothing);
      guest.sendHome = nothing;
      audience.stay(guest);
      const events = {
        deliver: resolve,
        idle: () => {
          if (returnImmediately) resolve([]);
        },
        ended: (why: Parameters<typeof endOf>[0]) => reject(endOf(why, id)),
      };
      const asked = { maxMessages, maxBytes: limits.responseBytes };
      service.open(project, id, asked, events, access).then((opened) => {
        stream = opened;
        if (isOver) opened.close();
      }, reject);
    });
    return { receivedMessages: deliveries.map((one) => receivedMessage(one, told)) };
  } finally {
    isOver = true;
    stream?.close();
    cancel();
    audience.go(guest);
    leave();
  }
}
