/**
 * The admin calls of a group. `GroupPart` offers them.
 *
 * Invariants: every call is idempotent, so each is retried.
 */
import { header } from "@sluice/protocol";
import type { CallOptions, Connection } from "../connection.ts";
import type { GroupMode, GroupSettings, GroupStart } from "../group-options.ts";
import type { Deleted } from "../stream.ts";

/** What a group is created with. */
export interface Declaration extends CallOptions {
  /** Where the group begins; `latest` by default. */
  readonly from?: GroupStart | undefined;
  /** Of a queue: how long a member has a message before it is delivered again. */
  readonly leaseMs?: number | undefined;
  /** Of a queue: after so many attempts a message is put into `deadLetter`. Both or neither. */
  readonly maxAttempts?: number | undefined;
  readonly deadLetter?: string | undefined;
}

/** A group as `Sluice.groups` lists it. */
export interface ListedGroup {
  readonly group: string;
  readonly mode: GroupMode;
  readonly filter: string;
}

/** What waits. */
export interface Backlog {
  /** Messages that are published and not acknowledged. */
  readonly lag: number;
  /** Messages that are delivered and not acknowledged. */
  readonly pending: number;
  /** The age of the oldest message that is not acknowledged; null if there is none. */
  readonly oldestUnackedMs: number | null;
}

export interface GroupInfo extends ListedGroup, Backlog {
  /** `stored`: no leader answered, so the members are unknown. */
  readonly source: "leader" | "stored";
  readonly leader: { readonly node: string; readonly epoch: number } | null;
  readonly members: readonly ({ readonly id: string; readonly streams: readonly string[] } & Backlog)[];
  readonly streams: readonly ({
    readonly stream: string;
    /** `free`, `granting`, `granted`, `revoking` or `revoked`. */
    readonly status: string;
    /** The member that has the stream. */
    readonly borrower: string | null;
    readonly progress: string;
    readonly tail: string;
  } & Backlog)[];
  /** The group has more streams than are listed and summed up here. */
  readonly isCut?: boolean | undefined;
}

export interface Redriven {
  /** Messages that are back in their streams. */
  readonly redriven: number;
  /** Messages whose stream is gone, closed or of another type. */
  readonly stayed: number;
  /** Further messages are left for another call. */
  readonly more: boolean;
}

export class GroupAdmin {
  private readonly path: string;

  constructor(
    protected readonly connection: Connection,
    protected readonly settings: GroupSettings,
  ) {
    this.path = `groups/${encodeURIComponent(settings.name)}`;
  }

  async declare({ signal, giveUpMs, ...declaration }: Declaration = {}): Promise<{ readonly created: boolean }> {
    const { mode = "share" } = this.settings;
    const { status } = await this.connection.call({
      ...this.posted(this.path, { ...declaration, mode }),
      method: "PUT",
      signal,
      giveUpMs,
    });
    return { created: status === 201 };
  }

  info(options: CallOptions = {}): Promise<GroupInfo> {
    const call = { ...options, method: "GET", path: this.path, query: this.which };
    return this.connection.json<GroupInfo>(call, "streams", Array.isArray);
  }

  async seek(to: GroupStart, options: CallOptions = {}): Promise<void> {
    await this.connection.call({ ...options, ...this.posted(`${this.path}/seek`, { to }) });
  }

  redrive(options: CallOptions = {}): Promise<Redriven> {
    const call = { ...options, ...this.posted(`${this.path}/redrive`, {}) };
    return this.connection.json<Redriven>(call, "redriven", Number.isSafeInteger);
  }

  remove(options: CallOptions = {}): Promise<Deleted> {
    return this.connection.delete({ ...options, path: this.path, query: this.which });
  }

  private get which(): { readonly filter: string | undefined; readonly mode: GroupMode | undefined } {
    const { filter, mode } = this.settings;
    return { filter, mode };
  }

  private posted(path: string, body: object) {
    const headers = { [header.contentType]: "application/json" };
    return { method: "POST", path, headers, body: JSON.stringify({ ...this.which, ...body }) };
  }
}
