/**
 * The services and messages of `google.pubsub.v1` and `google.iam.v1`, as Google defines them. The gRPC server loads them with its
 * first connection.
 *
 * Invariants: requests are decoded and responses encoded by protobufjs without a copy into plain objects, because every message of
 * every subscriber passes here.
 */
import type { MethodDefinition, ServiceDefinition } from "@grpc/grpc-js";
import protobuf from "protobufjs";
import { DEFINITIONS } from "./generated-definitions.ts";

export interface ErrorInfo {
  readonly reason: string;
  readonly domain: string;
  readonly metadata: Readonly<Record<string, string>>;
}

export class Definitions {
  private constructor(private readonly root: protobuf.Root) {}

  static load(): Definitions {
    const root = protobuf.Root.fromJSON(DEFINITIONS);
    root.resolveAll();
    return new Definitions(root);
  }

  /** As grpc-js takes it: methods by their names. */
  service(name: string): ServiceDefinition {
    const { methodsArray } = this.root.lookupService(name);
    return Object.fromEntries(methodsArray.map((method) => [method.name, methodOf(name, method)]));
  }

  /** A message as JSON that can be stored. */
  toJson(type: string, message: object): Readonly<Record<string, unknown>> {
    const options = { longs: String, enums: String, bytes: String };
    return this.root.lookupType(type).toObject(message as protobuf.Message, options);
  }

  /** What `toJson` made, as a message again. */
  fromJson(type: string, json: object): object {
    return this.root.lookupType(type).fromObject(json as Record<string, unknown>);
  }

  /** A `google.rpc.Status` that carries an ErrorInfo, for the trailer `grpc-status-details-bin`. */
  richStatus(code: number, message: string, info: ErrorInfo): Buffer {
    const value = this.root.lookupType("google.rpc.ErrorInfo").encode(info).finish();
    const details = [{ typeUrl: "type.googleapis.com/google.rpc.ErrorInfo", value }];
    return Buffer.from(this.root.lookupType("google.rpc.Status").encode({ code, message, details }).finish());
  }
}

function methodOf(service: string, method: protobuf.Method): MethodDefinition<object, object> {
  const { resolvedRequestType, resolvedResponseType } = method;
  const encode = (type: protobuf.Type) => (message: object) => type.encode(message).finish() as Buffer;
  const decode = (type: protobuf.Type) => (bytes: Buffer) => type.decode(bytes);
  return {
    path: `/${service}/${method.name}`,
    requestStream: method.requestStream ?? false,
    responseStream: method.responseStream ?? false,
    requestSerialize: encode(resolvedRequestType!),
    requestDeserialize: decode(resolvedRequestType!),
    responseSerialize: encode(resolvedResponseType!),
    responseDeserialize: decode(resolvedResponseType!),
  };
}
