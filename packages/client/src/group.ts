/**
 * The handle of a group: consume its messages as one of its members, and look after it. Made by the client. What it needs for that is
 * loaded on demand, because most pages consume no group.
 *
 * Invariants: a handle is one member. It consumes once at a time.
 */
import type { CallOptions } from "./connection.ts";
import type { GroupStart } from "./group-options.ts";
import type { Declaration, GroupInfo, Redriven } from "./groups/admin.ts";
import type { GroupMessage } from "./groups/delivery.ts";
import type { GroupPart } from "./groups/group-part.ts";
import type { CloseGroupOptions } from "./groups/member.ts";
import type { Messages } from "./groups/messages.ts";
import type { GroupHandler, RunOptions } from "./groups/runner.ts";
import type { Deleted } from "./stream.ts";

export class Group<T = unknown> implements AsyncIterable<GroupMessage<T>> {
  constructor(private readonly load: () => Promise<GroupPart<T>>) {}

  /**
   * Joins the group and yields its messages until `close`. Leaving the loop leaves the group. Throws a SluiceError when the server
   * refuses, or was away for `giveUpMs`.
   */
  [Symbol.asyncIterator](): AsyncIterator<GroupMessage<T>, void, undefined> {
    let joining: Promise<void> | undefined;
    let isOver = false;
    let messages: Messages<T> | undefined;
    const join = async () => {
      messages = (await this.load()).messages();
    };
    // Not a generator: each message of one costs several more turns of the microtask queue.
    return {
      next: async () => {
        if (isOver) return { done: true, value: undefined };
        joining ??= join();
        if (messages === undefined) await joining;
        return messages!.next();
      },
      return: async () => {
        isOver = true;
        await joining;
        return messages?.return() ?? { done: true, value: undefined };
      },
    };
  }

  /**
   * Joins the group and calls the handler for each message; acknowledges what it returns from. Resolves after `close`. Of a stream of
   * a `share` group one message is handled at a time, in order.
   */
  async run(handler: GroupHandler<T>, options?: RunOptions): Promise<void> {
    return (await this.load()).run(handler, options);
  }

  /** Stops handing out messages, waits until those that were handed out are settled, and leaves the group. */
  async close(options?: CloseGroupOptions): Promise<void> {
    return (await this.load()).close(options);
  }

  /** Creates the group unless it exists, so that it misses nothing from now on. */
  async declare(declaration?: Declaration): Promise<{ readonly created: boolean }> {
    return (await this.load()).declare(declaration);
  }

  async info(options?: CallOptions): Promise<GroupInfo> {
    return (await this.load()).info(options);
  }

  /** Moves the group. What is in flight is fenced. */
  async seek(to: GroupStart, options?: CallOptions): Promise<void> {
    return (await this.load()).seek(to, options);
  }

  /** Puts messages of the dead-letter stream back into their streams, as far as one request goes. */
  async redrive(options?: CallOptions): Promise<Redriven> {
    return (await this.load()).redrive(options);
  }

  /** Forgets the group and its progress. The streams stay. */
  async remove(options?: CallOptions): Promise<Deleted> {
    return (await this.load()).remove(options);
  }
}
