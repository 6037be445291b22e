/**
 * The admin calls of a group. `GroupPart` offers them.
 *
 * Invariants: calls that are idempotent are retried. A redrive is not, so it is tried once.
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

export interface GroupInfo extends ListedGroup {
  /** Null while no member consumes, or when the server that was asked does not know. */
  readonly leader: { readonly node: string; readonly epoch: number } | null;
  readonly members: readonly { readonly id: string; readonly streams: readonly string[] }[];
  readonly streams: readonly {
    readonly stream: string;
    /** `free`, `granting`, `granted`, `revoking` or `revoked`. */
    readonly status: string;
    readonly borrower: string | null;
    readonly progress: string;
    readonly tail: string;
    /** Messages that are not processed. */
    readonly lag: number;
  }[];
  /** Messages that are not processed, over all streams. */
  readonly pending: number;
  /** How long the oldest of them has waited; undefined from a server that does not tell. */
  readonly oldestUnackedMs?: number | null | undefined;
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

  async redrive(options: CallOptions = {}): Promise<{ readonly redriven: number | undefined }> {
    const { text } = await this.connection.once({ ...options, ...this.posted(`${this.path}/redrive`, {}) });
    return { redriven: text === "" ? undefined : JSON.parse(text).redriven };
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
