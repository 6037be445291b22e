/**
 * All that a handle of a group does. `Group` loads this file, and with it the whole groups part, on the first call.
 *
 * Invariants: a handle has one member at a time.
 */
import type { Connection } from "../connection.ts";
import type { GroupSettings } from "../group-options.ts";
import { GroupAdmin } from "./admin.ts";
import { type CloseGroupOptions, Member } from "./member.ts";
import { Messages } from "./messages.ts";
import { type GroupHandler, Runner, type RunOptions } from "./runner.ts";

export interface Closable {
  close(): Promise<void>;
}

export class GroupPart<T> extends GroupAdmin {
  private member: Member<T> | undefined;

  constructor(
    connection: Connection,
    settings: GroupSettings,
    /** The members of the client, which it closes with itself. */
    private readonly members: Set<Closable>,
  ) {
    super(connection, settings);
  }

  messages(): Messages<T> {
    const member = this.join();
    return new Messages(member, () => this.left(member));
  }

  async run(handler: GroupHandler<T>, options: RunOptions = {}): Promise<void> {
    const runner = new Runner<T>(handler, options, this.settings.mode === "queue");
    const member = this.join();
    try {
      await runner.run(member);
    } finally {
      this.left(member);
    }
  }

  async close(options?: CloseGroupOptions): Promise<void> {
    await this.member?.close(options);
  }

  private join(): Member<T> {
    const { filter, Socket } = this.settings;
    if (filter === undefined) throw new TypeError("a member needs the filter of its group");
    if (Socket === undefined) throw new TypeError("this platform has no WebSocket; pass a class as WebSocket");
    if (this.member !== undefined)
      throw new TypeError("the group is consumed already; make another handle for another member");
    const member = new Member<T>(this.connection, this.settings);
    this.member = member;
    this.members.add(member);
    return member;
  }

  private left(member: Member<T>): void {
    this.member = undefined;
    this.members.delete(member);
  }
}
