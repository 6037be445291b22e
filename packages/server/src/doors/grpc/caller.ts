/**
 * Leads a call through the gRPC door: finds the project in the name that the request carries, identifies the caller, and runs the
 * method. The services (`publisher.ts` and so on) are made of methods that are wrapped here.
 *
 * Invariants: no method runs before its caller is identified; what the caller may do, the service of pull demands itself. Each call
 * ends exactly once.
 */
import type { Credentials, Identity } from "../../auth/identity.ts";
import type { Access } from "../../core/action.ts";
import type { Audience } from "../../core/audience.ts";
import { checkProject } from "../../core/project.ts";
import type { World } from "../../core/world.ts";
import type { Engine } from "../../engine/contract.ts";
import type { PullService } from "../../pull/contract.ts";
import type { GrpcLimits } from "./defaults.ts";
import type { Definitions } from "./definitions.ts";
import type { GrpcCall, Handler } from "./grpc-call.ts";
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
}

export interface Caller {
  readonly names: Names;
  readonly access: Access;
}

/** A failure that is not a refusal, such as acknowledgements that succeeded in part. */
export class CallFailure extends Error {
  constructor(readonly failure: Failure) {
    super(failure.details);
  }
}

export type Run<Q> = (caller: Caller, request: Q, call: GrpcCall) => Promise<object>;
/** Opens a call of a method. */
export type Open = (call: GrpcCall) => Handler;
/** The methods of a service, by their names. */
export type Service = Readonly<Record<string, Open>>;

/** A method that gets one request. `nameOf`: the name in the request by which its project is known. */
export function unary<Q>(parts: MethodParts, nameOf: (request: Q) => string, run: Run<Q>): Open {
  return (call) => {
    let names: Names | undefined;
    return {
      take: async (asked) => {
        const request = asked as Q;
        names = namesOf(nameOf(request));
        const access = await identify(parts.identity, names.project, call);
        return run({ names, access }, request, call);
      },
      failure: (fault) => failureIn(parts, call, names, fault),
    };
  };
}

export function namesOf(name: string): Names {
  const project = projectOf(name);
  checkProject(project);
  return new Names(project);
}

export function failureIn(parts: GrpcParts, call: GrpcCall, names: Names | undefined, fault: unknown): Failure {
  if (fault instanceof CallFailure) return fault.failure;
  return failureOf(fault, names, (unexpected) => parts.report(`a call of ${call.method} failed`, unexpected));
}

export function identify(identity: Identity, project: string, call: GrpcCall): Access | Promise<Access> {
  call.project = project;
  const header = (name: string) => call.header(name);
  const credentials: Credentials = {
    authorization: header("authorization"),
    cookieToken: undefined,
    addressToken: undefined,
    request: { method: "POST", path: call.path, search: "", origin: "", header },
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
