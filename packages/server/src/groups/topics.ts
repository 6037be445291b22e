/**
 * Which streams a filter matches, for the leaders of this node: per project one index of paths, filled by a listing, kept up by
 * hints of creations and deletions, and compared with a new listing once a minute. Leaders follow filters; the feature passes
 * on events of streams and of other nodes.
 *
 * Invariants: a follower is told of every path that matches at most one listing after it appeared, however many hints are lost.
 * A path that a listing does not have is gone, unless it appeared after that listing began. A project without followers costs
 * nothing.
 */
import { PathIndex } from "../core/path-index.ts";
import { parseFilter, type TopicFilter } from "../core/topic.ts";
import { levelsOfFilter, TopicIndex } from "../core/topic-index.ts";
import type { Cancel, World } from "../core/world.ts";
import type { Listing } from "../engine/contract.ts";

export interface TopicFollower {
  found(paths: readonly string[]): void;
  lost(paths: readonly string[]): void;
  /** A listing is complete: these paths match. What the follower failed to take before, it can take now. */
  relisted(paths: readonly string[]): void;
}

export interface TopicsParts {
  readonly world: Pick<World, "after">;
  list(project: string, after: string, limit: number): Promise<Listing> | Listing;
  readonly pagePaths: number;
  readonly relistMs: number;
  readonly report: (what: string, fault: unknown) => void;
}

export class Topics {
  private readonly projects = new Map<string, ProjectPaths>();

  constructor(private readonly parts: TopicsParts) {}

  /** Tells the follower what matches now, as soon as that is known, and what changes. Returns the function that ends it. */
  follow(project: string, filter: string, follower: TopicFollower): () => void {
    let paths = this.projects.get(project);
    if (paths === undefined) {
      paths = new ProjectPaths(this.parts, project);
      this.projects.set(project, paths);
    }
    const known = paths;
    known.add(parseFilter(filter)!, follower);
    return () => {
      known.remove(parseFilter(filter)!, follower);
      if (!known.isFollowed && this.projects.get(project) === known) {
        known.stop();
        this.projects.delete(project);
      }
    };
  }

  /** A hint. */
  created(project: string, path: string): void {
    this.projects.get(project)?.created(path);
  }

  deleted(project: string, path: string): void {
    this.projects.get(project)?.deleted(path);
  }

  stop(): void {
    for (const paths of this.projects.values()) paths.stop();
    this.projects.clear();
  }
}

class ProjectPaths {
  private readonly index = new PathIndex();
  private readonly filters = new TopicIndex<TopicFollower>();
  private readonly followers = new Map<TopicFollower, TopicFilter>();
  private isListed = false;
  private isStopped = false;
  /** Paths that hints named while a listing runs: it may have passed their place. */
  private readonly hinted = new Set<string>();
  private timer: Cancel | undefined;

  constructor(
    private readonly parts: TopicsParts,
    private readonly project: string,
  ) {
    void this.relist();
  }

  get isFollowed(): boolean {
    return this.followers.size > 0;
  }

  add(filter: TopicFilter, follower: TopicFollower): void {
    this.filters.add(levelsOfFilter(filter), follower);
    this.followers.set(follower, filter);
    if (this.isListed) follower.found(this.index.match(filter));
  }

  remove(filter: TopicFilter, follower: TopicFollower): void {
    this.filters.remove(levelsOfFilter(filter), follower);
    this.followers.delete(follower);
  }

  created(path: string): void {
    this.hinted.add(path);
    if (this.index.add(path) && this.isListed) for (const one of this.filters.match(path)) one.found([path]);
  }

  deleted(path: string): void {
    this.hinted.add(path);
    if (this.index.remove(path) && this.isListed) for (const one of this.filters.match(path)) one.lost([path]);
  }

  stop(): void {
    this.isStopped = true;
    this.timer?.();
  }

  private async relist(): Promise<void> {
    const { parts, project } = this;
    try {
      this.hinted.clear();
      const listed = new Set<string>();
      for (let after: string | undefined = ""; after !== undefined && !this.isStopped; ) {
        const page: Listing = await parts.list(project, after, parts.pagePaths);
        for (const path of page.ids) listed.add(path);
        after = page.next;
      }
      if (!this.isStopped) this.compare(listed);
    } catch (fault) {
      if (!this.isStopped)
        parts.report(`listing the streams of ${project} for its groups failed; it is repeated`, fault);
    }
    if (this.isStopped) return;
    this.timer = parts.world.after(this.isListed ? parts.relistMs : parts.relistMs / 60, () => void this.relist());
  }

  private compare(listed: ReadonlySet<string>): void {
    const gone = [...this.index].filter((path) => !listed.has(path) && !this.hinted.has(path));
    const found = [...listed].filter((path) => !this.hinted.has(path) && this.index.add(path));
    for (const path of gone) this.index.remove(path);
    if (!this.isListed) {
      // The followers so far are told of everything, in one piece.
      this.isListed = true;
      this.tell([...this.index], "found");
      return;
    }
    this.tell(found, "found");
    this.tell(gone, "lost");
    for (const [follower, filter] of [...this.followers]) follower.relisted(this.index.match(filter));
  }

  private tell(paths: readonly string[], what: "found" | "lost"): void {
    const byFollower = new Map<TopicFollower, string[]>();
    for (const path of paths) {
      for (const follower of this.filters.match(path)) {
        const list = byFollower.get(follower);
        if (list === undefined) byFollower.set(follower, [path]);
        else list.push(path);
      }
    }
    for (const [follower, matched] of byFollower) follower[what](matched);
  }
}
