/**
 * Schemas of a project, with their revisions. Part of the service; a door checks definitions and messages, because it has the
 * parsers.
 *
 * Invariants: a schema has at least one revision and at most 20, the newest last. A revision never changes.
 */
import type { Access, Need } from "../core/action.ts";
import { hex } from "../core/bytes.ts";
import { Refusal } from "../core/refusal.ts";
import { put } from "../engine/draft.ts";
import type { Created, Listed, ListPage, NewSchema, Schema } from "./contract.ts";
import { checkName } from "./options.ts";
import { demand, listed, type PullParts } from "./parts.ts";
import { SCHEMA, SCHEMA_META, type SchemaMeta, schemaEntity, schemaTable } from "./state.ts";

const MAX_REVISIONS = 20;
const REVISION_BYTES = 4;

export class Schemas {
  constructor(private readonly parts: PullParts) {}

  async create(project: string, name: string, asked: NewSchema, access: Access): Promise<Created<Schema>> {
    await this.demand(project, access, "write");
    checkName("schema", name);
    const revision = this.newRevision();
    return this.parts.keepers.submit<Created<Schema>>(schemaEntity(project, name), [SCHEMA_META], (view, now) => {
      const known = view.get(schemaTable, "");
      if (known !== undefined) return { outcome: { value: { ...known, name }, isNew: false } };
      const { type, definition } = asked;
      const made: SchemaMeta = { type, revisions: [{ revision, createdAt: now, definition }] };
      return { outcome: { value: { ...made, name }, isNew: true }, changes: [put(schemaTable, "", made)] };
    });
  }

  /** Adds a revision. */
  commit(project: string, name: string, asked: NewSchema, access: Access): Promise<Schema> {
    return this.change(project, name, access, (known, now) => {
      if (asked.type !== known.type)
        throw new Refusal("bad-request", `the type of a schema cannot be changed; it is ${known.type}`);
      return this.added(known, asked.definition, now);
    });
  }

  /** Adds a revision with the definition of an earlier one. */
  rollback(project: string, name: string, revision: string, access: Access): Promise<Schema> {
    return this.change(project, name, access, (known, now) =>
      this.added(known, revisionOf({ ...known, name }, revision).definition, now),
    );
  }

  deleteRevision(project: string, name: string, revision: string, access: Access): Promise<Schema> {
    return this.change(project, name, access, (known) => {
      revisionOf({ ...known, name }, revision);
      if (known.revisions.length === 1) {
        throw new Refusal("bad-request", "the only revision of a schema cannot be deleted; delete the schema");
      }
      return { ...known, revisions: known.revisions.filter((one) => one.revision !== revision) };
    });
  }

  update(project: string, name: string, opaque: Schema["opaque"], access: Access): Promise<Schema> {
    return this.change(project, name, access, (known) => ({ ...known, opaque }));
  }

  private added(known: SchemaMeta, definition: string, now: number): SchemaMeta {
    if (known.revisions.length >= MAX_REVISIONS) {
      throw new Refusal("bad-request", `a schema has at most ${MAX_REVISIONS} revisions; delete one first`);
    }
    const added = { revision: this.newRevision(), createdAt: now, definition };
    return { ...known, revisions: [...known.revisions, added] };
  }

  private newRevision(): string {
    return hex(this.parts.world.randomBytes(REVISION_BYTES));
  }

  private async change(
    project: string,
    name: string,
    access: Access,
    rule: (known: SchemaMeta, now: number) => SchemaMeta,
  ): Promise<Schema> {
    await this.demand(project, access, "write");
    return this.parts.keepers.submit(schemaEntity(project, name), [SCHEMA_META], (view, now) => {
      const known = view.get(schemaTable, "");
      if (known === undefined) throw notFound(name);
      const changed = rule(known, now);
      return { outcome: { ...changed, name }, changes: [put(schemaTable, "", changed)] };
    });
  }

  async get(project: string, name: string, access: Access): Promise<Schema> {
    await this.demand(project, access, "read-or-write");
    return (await this.look(project, name)) ?? Promise.reject(notFound(name));
  }

  private async look(project: string, name: string): Promise<Schema | undefined> {
    const { rows } = await this.parts.engine.load(schemaEntity(project, name), [SCHEMA_META]);
    return rows[0] && { ...schemaTable.decode(rows[0]), name };
  }

  async list(project: string, page: ListPage, access: Access): Promise<Listed<Schema>> {
    await this.demand(project, access, "read-or-write");
    return listed(this.parts, project, SCHEMA, page, (name) => this.look(project, name));
  }

  async delete(project: string, name: string, access: Access): Promise<void> {
    await this.demand(project, access, "write");
    await this.parts.keepers.submit(schemaEntity(project, name), [SCHEMA_META], (view) => {
      if (!view.exists) throw notFound(name);
      return { outcome: undefined, changes: [{ op: "destroy" }] };
    });
  }

  /** Schemas belong to the whole project, so a caller that is confined to some streams may not change them. */
  private async demand(project: string, access: Access, need: Need): Promise<void> {
    await demand(access, project, "schema", need);
    if (need === "write" && access.isConfined) {
      throw new Refusal("forbidden", "a caller that is confined to some streams may not change schemas");
    }
  }
}

/** Throws a Refusal if the schema has no such revision. */
export function revisionOf({ name, revisions }: Schema, revision: string) {
  const found = revisions.find((one) => one.revision === revision);
  if (found === undefined) throw notFound(`${name}@${revision}`);
  return found;
}

function notFound(name: string): Refusal {
  return new Refusal("schema-not-found", `there is no schema ${JSON.stringify(name)}`);
}
