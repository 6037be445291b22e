/**
 * The services and messages of `google.pubsub.v1` and `google.iam.v1`, from the module that is made of Google's definitions. The gRPC
 * server loads them with its first connection.
 *
 * Invariants: requests are checked before they are decoded. Requests are decoded and responses encoded by protobufjs without a copy
 * into plain objects, because every message of every subscriber passes here.
 */
import protobuf from "protobufjs";
import { Refusal } from "../../core/refusal.ts";
import { checkFields } from "./field-check.ts";
import { DEFINITIONS } from "./generated-definitions.ts";
import { HEAD_BYTES } from "./message-frames.ts";

export interface ErrorInfo {
  readonly reason: string;
  readonly domain: string;
  readonly metadata: Readonly<Record<string, string>>;
}

export interface Method {
  /** `Publisher.Publish` */
  readonly name: string;
  readonly path: string;
  readonly isStream: boolean;
  /** Throws a Refusal for bytes that are no request of this method. */
  decode(bytes: Buffer, maxFields: number): object;
  /** The response behind the head of its frame. */
  encode(response: object): Buffer;
}

export class Definitions {
  private readonly root = protobuf.Root.fromJSON(DEFINITIONS as protobuf.INamespace).resolveAll() as protobuf.Root;

  methods(service: string): Method[] {
    return this.root.lookupService(service).methodsArray.map((method) => methodOf(service, method));
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
  richStatus(code: number, message: string, info: ErrorInfo): Uint8Array {
    const value = this.root.lookupType("google.rpc.ErrorInfo").encode(info).finish();
    const details = [{ typeUrl: "type.googleapis.com/google.rpc.ErrorInfo", value }];
    return this.root.lookupType("google.rpc.Status").encode({ code, message, details }).finish();
  }
}

function methodOf(service: string, method: protobuf.Method): Method {
  const [request, response] = [method.resolvedRequestType!, method.resolvedResponseType!];
  return {
    name: `${service.slice(service.lastIndexOf(".") + 1)}.${method.name}`,
    path: `/${service}/${method.name}`,
    isStream: method.requestStream ?? false,
    decode: (bytes, maxFields) => {
      checkFields(bytes, request, maxFields);
      try {
        return request.decode(bytes);
      } catch {
        throw new Refusal("bad-request", "The request is not a valid message of its method.");
      }
    },
    encode: (message) => framed(response, message),
  };
}

/** Room for the head comes first, so that a response is not copied behind it. */
function framed(type: protobuf.Type, message: object): Buffer {
  const bytes = type.encode(message, protobuf.Writer.create().bool(false).fixed32(0)).finish() as Buffer;
  bytes.writeUInt32BE(bytes.length - HEAD_BYTES, 1);
  return bytes;
}
