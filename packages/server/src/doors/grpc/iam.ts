/**
 * `google.iam.v1.IAMPolicy`: the policy of a topic, subscription, snapshot or schema. A policy is kept for its clients and decides
 * nothing; tokens decide (`auth/permissions.ts`).
 *
 * Invariants: a policy is deleted with its resource. A write that names an old etag is refused. `TestIamPermissions` answers with what
 * the caller may really do.
 */
import type { Need } from "../../core/action.ts";
import { hex } from "../../core/bytes.ts";
import { Refusal } from "../../core/refusal.ts";
import { type Caller, CallFailure, type MethodParts, type Service, unary } from "./caller.ts";
import { abortedBy } from "./status.ts";

const TYPE = "google.iam.v1.Policy";
const ETAG_BYTES = 8;
/** Of a resource that never had a policy. */
const NO_ETAG = Uint8Array.of(0, 32, 1);
/** Permissions that a reader has; all others need write. */
const READING = /\.(get|list|consume|getIamPolicy|attachSubscription|validate)$/;

interface OfResource {
  readonly resource: string;
}

interface PolicyWire {
  readonly etag: Uint8Array;
}

/** What holds the policy of a resource. */
interface Holder {
  readonly opaque: Readonly<Record<string, unknown>> | undefined;
  /** The stream that a caller must have access to; undefined for what belongs to the whole project. */
  readonly stream: string | undefined;
  store(opaque: Readonly<Record<string, unknown>>): Promise<unknown>;
}

export function iam(parts: MethodParts): Service {
  const { definitions } = parts;
  const policyOf = ({ opaque }: Holder) => definitions.fromJson(TYPE, (opaque?.policy ?? {}) as object) as PolicyWire;
  const answer = (policy: PolicyWire) => (policy.etag.length === 0 ? { ...policy, etag: NO_ETAG } : policy);
  return {
    GetIamPolicy: unary<OfResource>(
      parts,
      ({ resource }) => resource,
      async (caller, { resource }) => answer(policyOf(await holderOf(parts, caller, resource))),
    ),
    SetIamPolicy: unary<OfResource & { readonly policy: PolicyWire | null }>(
      parts,
      ({ resource }) => resource,
      async (caller, { resource, policy }) => {
        if (policy === null) throw new Refusal("bad-request", "A policy is required.");
        const holder = await holderOf(parts, caller, resource);
        const { etag } = answer(policyOf(holder));
        if (policy.etag.length > 0 && hex(etag) !== hex(policy.etag)) {
          throw new CallFailure(abortedBy("The policy was changed by another caller: read it and try again."));
        }
        const stored = { ...policy, etag: parts.world.randomBytes(ETAG_BYTES) };
        await holder.store({ ...holder.opaque, policy: definitions.toJson(TYPE, stored) });
        return stored;
      },
    ),
    TestIamPermissions: unary<OfResource & { readonly permissions: readonly string[] }>(
      parts,
      ({ resource }) => resource,
      async (caller, { resource, permissions }) => {
        const { stream } = await holderOf(parts, caller, resource);
        const held: string[] = [];
        for (const permission of permissions) if (await may(caller, permission, stream)) held.push(permission);
        return { permissions: held };
      },
    ),
  };
}

async function may({ names, access }: Caller, permission: string, stream: string | undefined): Promise<boolean> {
  const need: Need = READING.test(permission) ? "read-or-write" : "write";
  try {
    await access.demand({ action: "pull.test-permission", need, project: names.project, stream });
    return true;
  } catch (fault) {
    if (fault instanceof Refusal && fault.code === "forbidden") return false;
    throw fault;
  }
}

async function holderOf({ service }: MethodParts, { names, access }: Caller, resource: string): Promise<Holder> {
  const { project } = names;
  switch (resource.split("/")[2]) {
    case "topics": {
      const path = names.topic(resource);
      const { opaque } = await service.topic(project, path, access);
      return {
        opaque,
        stream: path,
        store: (changed) => service.updateTopic(project, path, { opaque: changed }, access),
      };
    }
    case "subscriptions": {
      const id = names.subscription(resource);
      const { opaque, topic: stream } = await service.get(project, id, access);
      return { opaque, stream, store: (changed) => service.update(project, id, { opaque: changed }, access) };
    }
    case "snapshots": {
      const id = names.snapshot(resource);
      const { opaque, topic: stream } = await service.snapshot(project, id, access);
      return { opaque, stream, store: (changed) => service.updateSnapshot(project, id, { opaque: changed }, access) };
    }
    default: {
      const id = names.schema(resource);
      const { opaque } = await service.schema(project, id, access);
      return { opaque, stream: undefined, store: (changed) => service.updateSchema(project, id, changed, access) };
    }
  }
}
