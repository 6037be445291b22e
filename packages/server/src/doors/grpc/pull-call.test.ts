import { expect, it } from "vitest";
import type { Caller, MethodParts } from "./caller.ts";
import type { GrpcCall } from "./grpc-call.ts";
import { Names } from "./names.ts";
import { pullCall } from "./pull-call.ts";

it("a caller that leaves while its subscription is looked up gets no lease", async () => {
  let isOpened = false;
  const call = { isGone: false };
  const service = {
    get: async () => {
      call.isGone = true;
    },
    open: async () => {
      isOpened = true;
    },
  };
  const asked = { subscription: "projects/p/subscriptions/s", returnImmediately: false, maxMessages: 1 };
  const caller = { names: new Names("p") } as Caller;
  const parts = { service } as unknown as MethodParts;
  expect(await pullCall(parts, caller, asked, call as GrpcCall)).toEqual({ receivedMessages: [] });
  expect(isOpened).toBe(false);
});
