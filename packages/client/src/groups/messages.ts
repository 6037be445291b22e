/**
 * The messages of a group as a loop gets them. A handle makes one for each loop.
 *
 * Invariants: the member has left when the loop is over, however it ended. After `close` that waits for messages that the program
 * still settles.
 */
import type { GroupMessage } from "./delivery.ts";
import type { Member } from "./member.ts";

const DONE: IteratorReturnResult<undefined> = { done: true, value: undefined };

export class Messages<T> implements AsyncIterator<GroupMessage<T>, void, undefined> {
  private left: Promise<void> | undefined;

  constructor(
    private readonly member: Member<T>,
    private readonly onLeft: () => void,
  ) {}

  async next(): Promise<IteratorResult<GroupMessage<T>, undefined>> {
    if (this.left !== undefined) return DONE;
    try {
      const value = await this.member.next();
      if (value !== undefined) return { done: false, value };
      await this.member.close();
    } catch (error) {
      await this.leave();
      throw error;
    }
    return this.return();
  }

  async return(): Promise<IteratorReturnResult<undefined>> {
    await this.leave();
    return DONE;
  }

  private leave(): Promise<void> {
    this.left ??= this.member.leave().finally(this.onLeft);
    return this.left;
  }
}
