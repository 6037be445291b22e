/**
 * Leads a call through the gRPC door: finds the project in the name that the request carries, identifies the caller, and runs the
 * method. The services (`publisher.ts` and so on) are made of methods that are wrapped here.
 *
 * Invariants: no method runs before its caller is identified; what the caller may do, the service of pull demands itself. Each call
 * ends exactly once.
 */
import type { handleUnaryCall, ServerUnaryCall } from "@grpc/grpc-js";
import type { Credentials, Identity } from "../../auth/identity.ts";
import type { Access } from "../../core/action.ts";
import type { Audience } from "../../core/audience.ts";
import { checkProject } from "../../core/project.ts";
import type { World } from "../../core/world.ts";
import type { Engine } from "../../engine/contract.ts";
import type { PullService } from "../../pull/contract.ts";
import type { MemoryBudget } from "../memory-budget.ts";
import type { GrpcLimits } from "./defaults.ts";
import type { Definitions } from "./definitions.ts";
import { Names, projectOf } from "./names.ts";
import { type Failure, failureOf } from "./status.ts";

export interface GrpcParts {
  readonly identity: Identity;
  readonly service: PullService;
  readonly engine: Pick<Engine, "now">;
  readonly world: World;
  readonly audience: Audience;
  readonly limits: GrpcLimits;
  /** Gets faults whose details no client sees. */
  readonly report: (what: string, fault: unknown) => void;
}

/** What the methods share once the definitions are loaded. */
export interface MethodParts extends GrpcParts {
  readonly definitions: Definitions;
  /** For requests that are being published. */
  readonly memory: MemoryBudget;
}

export interface Caller {
  readonly names: Names;
  readonly access: Access;
}

/** The part of a call that every kind of method has. */
export type AnyCall = Pick<ServerUnaryCall<unknown, unknown>, "metadata" | "getPath">;

/** A failure that is not a refusal, such as acknowledgements that succeeded in part. */
export class CallFailure extends Error {
  constructor(readonly failure: Failure) {
    super(failure.details);
  }
}

export type Run<Q> = (caller: Caller, request: Q, call: ServerUnaryCall<Q, object>) => Promise<object>;

/** A method that gets one request. `nameOf`: the name in the request by which its project is known. */
export function unary<Q>(parts: MethodParts, nameOf: (request: Q) => string, run: Run<Q>): handleUnaryCall<Q, object> {
  return async (call, callback) => {
    const { request } = call;
    let names: Names | undefined;
    try {
      names = namesOf(nameOf(request));
      const access = await identify(parts.identity, names.project, call);
      callback(null, await run({ names, access }, request, call));
    } catch (fault) {
      callback(failureIn(parts, call, names, fault));
    }
  };
}

export function namesOf(name: string): Names {
  const project = projectOf(name);
  checkProject(project);
  return new Names(project);
}

export function failureIn(parts: GrpcParts, call: AnyCall, names: Names | undefined, fault: unknown): Failure {
  if (fault instanceof CallFailure) return fault.failure;
  return failureOf(fault, names, (unexpected) => parts.report(`the call ${call.getPath()} failed`, unexpected));
}

export function identify(identity: Identity, project: string, call: AnyCall): Access | Promise<Access> {
  const header = (name: string) => {
    const [value] = call.metadata.get(name);
    return typeof value === "string" ? value : undefined;
  };
  const request = { method: "POST", path: call.getPath(), search: "", origin: "", header };
  const credentials: Credentials = {
    authorization: header("authorization"),
    cookieToken: undefined,
    addressToken: undefined,
    request,
  };
  return identity.identify(project, credentials);
}

/** The members that an update names, without those within them: `labels.a` changes `labels`. */
export function maskOf(updateMask: { readonly paths: readonly string[] } | null): ReadonlySet<string> {
  return new Set((updateMask?.paths ?? []).map((path) => camelCase(path.split(".")[0]!)));
}

function camelCase(path: string): string {
  return path.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
