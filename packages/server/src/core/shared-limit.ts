/**
 * A limit for all projects together, of which one project may use at most its share. So no tenant can keep the others out. Parts
 * that refuse or delay work beyond a limit of the whole server count it here: waiting readers, wake subscriptions, webhooks.
 *
 * Invariants: counts never fall below zero, and a project that uses nothing takes no memory. With a share of 100 percent one
 * project may use everything.
 */
import type { ErrorCode } from "@sluice/protocol";
import { Refusal } from "./refusal.ts";

export interface SharedLimitOptions {
  /** The setting that a refusal names. */
  readonly setting: string;
  /** What is counted, in the plural. */
  readonly noun: string;
  readonly max: number;
  /** The refusal when all projects together have reached the limit. */
  readonly code: ErrorCode;
  /** The setting `projectSharePercent`. */
  readonly sharePercent?: number | undefined;
}

/** Readers leave and subscriptions are deleted at any moment. */
const RETRY_AFTER_MS = 1_000;

export class SharedLimit {
  private total = 0;
  private readonly byProject = new Map<string, number>();
  /** What one project may use. */
  private readonly share: number;

  constructor(private readonly options: SharedLimitOptions) {
    const { max, sharePercent = 100 } = options;
    this.share = Math.max(1, Math.floor((max * sharePercent) / 100));
  }

  /** What all projects use together. */
  get used(): number {
    return this.total;
  }

  hasRoom(project: string, amount = 1): boolean {
    return !this.isShareFull(project, amount) && !this.isFull(amount);
  }

  /** Throws a Refusal if the project gets no more. A project at its share is told so, even if the server is full as well. */
  demandRoom(project: string, amount = 1): void {
    const { setting, noun, max, code } = this.options;
    if (this.isShareFull(project, amount)) {
      const detail =
        `the project ${project} may have ${this.share} ${noun} on this server, which is its share of ${setting} (${max}); ` +
        "the operator can raise the limit or projectSharePercent";
      throw new Refusal("project-limit", detail, { retryAfterMs: RETRY_AFTER_MS });
    }
    if (this.isFull(amount)) {
      throw new Refusal(
        code,
        `this server has ${max} ${noun} already, the limit of all projects (${setting}); retry later`,
      );
    }
  }

  /** Counts without a check, because stored work must be taken on again after a restart. New work asks for room first. */
  take(project: string, amount = 1): void {
    this.total += amount;
    this.set(project, this.usedBy(project) + amount);
  }

  give(project: string, amount = 1): void {
    this.total -= amount;
    this.set(project, this.usedBy(project) - amount);
  }

  /** With the whole limit as its share, a project is bounded by the limit itself. */
  private isShareFull(project: string, amount: number): boolean {
    return this.share < this.options.max && this.usedBy(project) + amount > this.share;
  }

  private isFull(amount: number): boolean {
    return this.total + amount > this.options.max;
  }

  private usedBy(project: string): number {
    return this.byProject.get(project) ?? 0;
  }

  private set(project: string, used: number): void {
    if (used > 0) this.byProject.set(project, used);
    else this.byProject.delete(project);
  }
}
