/**
 * `google.pubsub.v1.SchemaService`: schemas and their revisions, and checks of definitions and messages against them.
 *
 * Invariants: no schema is stored that its parser does not take. `SCHEMA@REVISION` names one revision, `SCHEMA` the newest.
 */
import { Refusal } from "../../core/refusal.ts";
import type { NewSchema, Schema, SchemaRevision } from "../../pull/contract.ts";
import { type Caller, type MethodParts, type Run, type Service, unary } from "./caller.ts";
import type { Names } from "./names.ts";
import { pageOf } from "./publisher.ts";
import { checkDefinition, checkerOf, type Encoding } from "./schema-check.ts";
import { type PageWire, spanOf } from "./wire.ts";

const TYPES = [undefined, "PROTOCOL_BUFFER", "AVRO"] as const;
const ENCODINGS = [undefined, "JSON", "BINARY"] as const;
const BASIC = 1;
const FULL = 2;

interface SchemaWire {
  readonly type: number;
  readonly definition: string;
}

interface OfName {
  readonly name: string;
}

interface Viewed {
  readonly view: number;
}

interface Validated {
  readonly parent: string;
  readonly name: string;
  readonly schema: SchemaWire | null;
  readonly message: Uint8Array;
  readonly encoding: number;
}

export function schemaService(parts: MethodParts): Service {
  const { service } = parts;
  const one = <Q extends OfName>(run: Run<Q>) => unary<Q>(parts, ({ name }) => name, run);
  return {
    CreateSchema: unary<{ readonly parent: string; readonly schemaId: string; readonly schema: SchemaWire | null }>(
      parts,
      ({ parent }) => parent,
      async ({ names, access }, { schemaId, schema }) => {
        const id = names.schema(names.schemaName(schemaId));
        const { value, isNew } = await service.createSchema(names.project, id, definitionOf(schema), access);
        if (!isNew) throw new Refusal("schema-exists", `the schema ${id} exists`);
        return newest(value, names);
      },
    ),
    GetSchema: one<OfName & Viewed>(async (caller, { name, view }) => {
      const { schema, revision } = await found(parts, caller, name);
      return schemaWire(schema, revision, caller.names, view || FULL);
    }),
    ListSchemas: unary<PageWire & Viewed & { readonly parent: string }>(
      parts,
      ({ parent }) => parent,
      async ({ names, access }, asked) => {
        const { items, next = "" } = await service.schemas(names.project, pageOf(asked), access);
        return { schemas: items.map((schema) => newest(schema, names, asked.view || BASIC)), nextPageToken: next };
      },
    ),
    ListSchemaRevisions: one<OfName & Viewed>(async (caller, { name, view }) => {
      const { schema } = await found(parts, caller, name);
      const revisions = [...schema.revisions].reverse();
      return { schemas: revisions.map((revision) => schemaWire(schema, revision, caller.names, view || BASIC)) };
    }),
    CommitSchema: one<OfName & { readonly schema: SchemaWire | null }>(async ({ names, access }, { name, schema }) => {
      const id = names.schema(name);
      return newest(await service.commitSchema(names.project, id, definitionOf(schema), access), names);
    }),
    RollbackSchema: one<OfName & { readonly revisionId: string }>(async ({ names, access }, { name, revisionId }) =>
      newest(await service.rollbackSchema(names.project, names.schema(name), revisionId, access), names),
    ),
    DeleteSchemaRevision: one<OfName & { readonly revisionId: string }>(
      async ({ names, access }, { name, revisionId }) => {
        const [id, revision = revisionId] = names.schema(name).split("@") as [string, string?];
        return newest(await service.deleteSchemaRevision(names.project, id, revision, access), names);
      },
    ),
    DeleteSchema: one(async ({ names, access }, { name }) => {
      await service.deleteSchema(names.project, names.schema(name), access);
      return {};
    }),
    ValidateSchema: unary<{ readonly parent: string; readonly schema: SchemaWire | null }>(
      parts,
      ({ parent }) => parent,
      async (_, { schema }) => {
        definitionOf(schema);
        return {};
      },
    ),
    ValidateMessage: unary<Validated>(
      parts,
      ({ parent }) => parent,
      async (caller, { name, schema, message, encoding }) => {
        const asked = name === "" ? definitionOf(schema) : await named(parts, caller, name);
        checkerOf(asked, encodingOf(encoding))(message);
        return {};
      },
    ),
  };
}

export function encodingOf(encoding: number): Encoding {
  const known = ENCODINGS[encoding];
  if (known === undefined) throw new Refusal("bad-request", "The encoding of a schema must be JSON or BINARY.");
  return known;
}

/** Throws a Refusal for a definition that cannot be parsed. */
function definitionOf(wire: SchemaWire | null): NewSchema {
  const type = TYPES[wire?.type ?? 0];
  if (type === undefined) throw new Refusal("bad-request", "The type of a schema must be AVRO or PROTOCOL_BUFFER.");
  const asked = { type, definition: wire!.definition };
  checkDefinition(asked);
  return asked;
}

/** What a name with or without a revision means. */
export async function named(parts: MethodParts, caller: Caller, name: string): Promise<NewSchema> {
  const { schema, revision } = await found(parts, caller, name);
  return { type: schema.type, definition: revision.definition };
}

async function found({ service }: MethodParts, { names, access }: Caller, name: string) {
  const [id, wanted] = names.schema(name).split("@") as [string, string?];
  const schema = await service.schema(names.project, id, access);
  const revision = schema.revisions.findLast((one) => wanted === undefined || one.revision === wanted);
  if (revision === undefined) throw new Refusal("schema-not-found", `the schema ${id} has no revision ${wanted}`);
  return { schema, revision };
}

function newest(schema: Schema, names: Names, view = FULL): object {
  return schemaWire(schema, schema.revisions.at(-1)!, names, view);
}

function schemaWire({ name, type }: Schema, revision: SchemaRevision, names: Names, view: number): object {
  return {
    name: names.schemaName(name),
    type: TYPES.indexOf(type),
    revisionId: revision.revision,
    revisionCreateTime: spanOf(revision.createdAt),
    ...(view === FULL && { definition: revision.definition }),
  };
}
