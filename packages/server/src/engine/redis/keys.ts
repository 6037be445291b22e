/**
 * Where everything lies in Redis. Everything that one commit touches is in one slot: entities are spread over 64 buckets, and a
 * bucket's number is the hash tag of all its keys, the indexes included. So a reminder and a directory entry change in the
 * same step as the entity they belong to, and 64 pieces can be spread over the masters of a cluster.
 *
 *   sluice:{17}:default/stream/a/b:h   string   the head, drawn in lua/shared.lua
 *   sluice:{17}:default/stream/a/b:l   stream   the log; an entry's id is generation-sequence
 *   sluice:{17}:default/stream/a/b:r   hash     rows: table NUL key -> value
 *   sluice:{17}:default/stream/a/b:k   zset     the same names, all of score 0, for their order
 *   sluice:{17}:default/stream/a/b:o   string   who owns it: epoch nonce until node        expires
 *   sluice:{17}:default/stream/a/b:w   hash     engine -> its last commit, if no longer in the head   expires
 *   sluice:{17}:default/stream/a/b:t   string   what it was when it was destroyed: generation rev      expires
 *   sluice:{17}:due                    zset     entity key -> when its reminder is due
 *   sluice:{17}:ids:stream:default     zset     the ids of a kind in a project, all of score 0
 *   sluice:{17}:projects:stream        set      the projects that have such ids
 *   sluice:{17}:hit:KEY                string   a window of the limiter                    expires
 *   sluice:{17}:barrier                string   written so that WAIT has something to wait for   expires
 *   sluice:{0}:nodes                   zset     node -> until when its record stands, in ms     expires
 *
 * `sluice` is the prefix that a service may choose. A key without an expiry belongs to an entity and goes with it. The head's
 * name is also the channel of the entity's watchers; sluice:{17}:node:ID is the channel on which a node is told.
 */
import type { Entity, RowKey } from "../contract.ts";

export const BUCKETS = 64;
/** One bucket holds the records of all nodes, so that one call lists them. */
export const NODES_BUCKET = 0;

export interface EntityKeys {
  readonly bucket: number;
  readonly head: string;
  readonly log: string;
  readonly rows: string;
  readonly order: string;
  readonly owner: string;
  readonly writers: string;
  readonly tombstone: string;
}

export function bucketOf(name: string): number {
  // FNV-1a over UTF-16 units: names differ in their last letters, and those must count.
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return (hash ^ (hash >>> 15)) & (BUCKETS - 1);
}

export class Keys {
  /** A keeper speaks of its entity by the same object again and again. */
  private readonly known = new WeakMap<Entity, EntityKeys>();

  /** `prefix`: several services may share one Redis under different ones. */
  constructor(private readonly prefix: string) {}

  entity(e: Entity): EntityKeys {
    const known = this.known.get(e);
    if (known !== undefined) return known;
    const made = this.make(e);
    this.known.set(e, made);
    return made;
  }

  private make(e: Entity): EntityKeys {
    const bucket = bucketOf(e.key);
    const base = `${this.bucket(bucket)}${e.key}`;
    return {
      bucket,
      head: `${base}:h`,
      log: `${base}:l`,
      rows: `${base}:r`,
      order: `${base}:k`,
      owner: `${base}:o`,
      writers: `${base}:w`,
      tombstone: `${base}:t`,
    };
  }

  due(bucket: number): string {
    return `${this.bucket(bucket)}due`;
  }

  ids(bucket: number, kind: string, project: string): string {
    return `${this.bucket(bucket)}ids:${kind}:${project}`;
  }

  projects(bucket: number, kind: string): string {
    return `${this.bucket(bucket)}projects:${kind}`;
  }

  hit(key: string): string {
    return `${this.bucket(bucketOf(key))}hit:${key}`;
  }

  barrier(bucket: number): string {
    return `${this.bucket(bucket)}barrier`;
  }

  nodes(): string {
    return `${this.bucket(NODES_BUCKET)}nodes`;
  }

  /** The channel on which a node is told. */
  node(id: string): string {
    return `${this.bucket(bucketOf(id))}node:${id}`;
  }

  private bucket(bucket: number): string {
    return `${this.prefix}:{${bucket}}:`;
  }
}

/** A table's rows lie together: no table's name holds a NUL, so none is the beginning of another's. */
export const rowName = ({ table, key }: RowKey): string => `${table}\0${key}`;
