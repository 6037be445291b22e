/**
 * Runs pieces of work, a limited number at a time, for all projects in turn. A project uses at most its share of the lanes, so slow
 * work of one tenant does not occupy all of them. Webhooks run in lanes.
 *
 * Invariants: every piece runs once, in the order in which its project's pieces came. A free lane is never left idle by a project
 * within its share.
 */
import { FairQueue } from "./fair-queue.ts";
import type { SharedLimit } from "./shared-limit.ts";

export class Lanes {
  private readonly queue = new FairQueue<() => void>();

  constructor(private readonly limit: SharedLimit) {}

  get active(): number {
    return this.limit.used;
  }

  get waiting(): number {
    return this.queue.length;
  }

  async run<T>(project: string, work: () => Promise<T>): Promise<T> {
    if (this.hasRoom(project)) this.limit.take(project);
    else {
      // The piece that ends takes the lane for the one that it lets go.
      await new Promise<void>((resolve) => {
        this.queue.push(project, () => {
          this.limit.take(project);
          resolve();
        });
      });
    }
    try {
      return await work();
    } finally {
      this.limit.give(project);
      this.queue.shift(this.hasRoom)?.();
    }
  }

  private readonly hasRoom = (project: string): boolean => this.limit.hasRoom(project);
}
