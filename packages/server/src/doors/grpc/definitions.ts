/**
 * The services and messages of `google.pubsub.v1` and `google.iam.v1`, loaded from the definitions in `google-proto-files`. The gRPC
 * server loads them with its first connection.
 *
 * Invariants: requests are decoded and responses encoded by protobufjs without a copy into plain objects, because every message of
 * every subscriber passes here.
 */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { MethodDefinition, ServiceDefinition } from "@grpc/grpc-js";
import protobuf from "protobufjs";

const FILES = [
  "google/pubsub/v1/pubsub.proto",
  "google/iam/v1/iam_policy.proto",
  "google/rpc/status.proto",
  "google/rpc/error_details.proto",
];

export interface ErrorInfo {
  readonly reason: string;
  readonly domain: string;
  readonly metadata: Readonly<Record<string, string>>;
}

export class Definitions {
  private constructor(private readonly root: protobuf.Root) {}

  static async load(): Promise<Definitions> {
    const folder = dirname(createRequire(import.meta.url).resolve("google-proto-files/package.json"));
    const root = new protobuf.Root();
    const loaded = new Set<string>();
    const load = async (file: string): Promise<void> => {
      if (loaded.has(file)) return;
      loaded.add(file);
      const { imports = [] } = protobuf.parse(await readFile(join(folder, file), "utf8"), root);
      await Promise.all(imports.map(load));
    };
    await Promise.all(FILES.map(load));
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
