/**
 * A member of a group in a simulated run: a client that processes messages one after another and acknowledges them. It lives on
 * one server and dies with it. The groups scenario starts it.
 *
 * Invariants: it acknowledges only what it has processed. It acts on nothing after its server has died.
 */
import { FULL_ACCESS } from "../../../../packages/server/src/core/action.ts";
import { EngineError, type LoggedMessage } from "../../../../packages/server/src/engine/contract.ts";
import type { Consumer } from "../../../../packages/server/src/groups/consumer.ts";
import type { Leased } from "../../../../packages/server/src/groups/messages.ts";
import { QueueConsumer, type QueueEvents } from "../../../../packages/server/src/groups/queue-consumer.ts";
import type { GroupName } from "../../../../packages/server/src/groups/topic.ts";
import type { Ledger } from "../../../groups/ledger.ts";
import type { App, Host } from "../../host.ts";
import type { Random } from "../../random.ts";
import type { SimWorld } from "../../world.ts";

export interface Around {
  readonly world: SimWorld;
  readonly random: Random;
  readonly ledger: Ledger;
  readonly project: string;
  readonly name: GroupName;
}

interface Job {
  readonly stream: string;
  /** The epoch of a grant, or the number of a lease. */
  readonly epoch: number;
  readonly message: LoggedMessage;
}

/** A stream that is created anew is another one for the ledger. */
export function logName(stream: string, generation: number): string {
  return `${stream}@${generation}`;
}

export class SimMember {
  hasLeft = false;
  private consumer: Consumer | QueueConsumer | undefined;
  private readonly jobs: Job[] = [];
  private isWorking = false;
  private readonly app: App;
  private readonly paceMs: number;

  constructor(
    private readonly around: Around,
    private readonly host: Host,
    readonly member: string,
  ) {
    this.app = host.app!;
    this.paceMs = around.random.pick([0, 5, 40]);
  }

  get isAlive(): boolean {
    return this.host.app === this.app && !this.hasLeft;
  }

  /** False if the server refused or died. */
  async join(): Promise<boolean> {
    const { project, name, ledger } = this.around;
    const asked = { name, member: this.member, credit: this.around.random.pick([1, 5, 100]) };
    const events = {
      subscribed: () => ledger.note(`${this.member} has subscribed`),
      granted: (stream: string, epoch: number) => ledger.granted(stream, epoch, this.member),
      revoking: (stream: string, epoch: number) => ledger.note(`${stream}@${epoch} is to be given back`),
      revoked: (stream: string, epoch: number) => {
        ledger.note(`${stream}@${epoch} is taken from ${this.member}`);
        const rest = this.jobs.filter((job) => job.stream !== stream);
        this.jobs.splice(0, this.jobs.length, ...rest);
      },
      messages: (stream: string, epoch: number, _: string, run: readonly LoggedMessage[]) => {
        for (const message of run) {
          const { generation, seq } = message.position;
          ledger.delivered(logName(stream, generation), seq, epoch);
          this.jobs.push({ stream, epoch, message });
        }
        void this.work();
      },
      acked: (stream: string, { generation, seq }: { generation: number; seq: number }) =>
        ledger.confirmed(logName(stream, generation), seq),
      gap: (stream: string) => ledger.object(`${stream} has a gap`),
      unsubscribed: () => {
        ledger.note(`${this.member} has unsubscribed`);
        this.hasLeft = true;
      },
    };
    try {
      const { service } = this.app.groups;
      this.consumer =
        name.mode === "queue"
          ? await service.work(project, asked, FULL_ACCESS, this.queueEvents())
          : await service.consume(project, asked, FULL_ACCESS, events);
      if (this.hasLeft) this.consumer.disconnect();
      return true;
    } catch (fault) {
      if (!(fault instanceof EngineError)) throw fault;
      return false;
    }
  }

  private queueEvents(): QueueEvents {
    const { ledger } = this.around;
    const nameOf = ({ stream, position }: Leased) => logName(stream, position.generation);
    return {
      subscribed: () => ledger.note(`${this.member} has subscribed`),
      message: (leased, _, message) => {
        ledger.leased(nameOf(leased), leased.position.seq, leased.lease);
        this.jobs.push({ stream: leased.stream, epoch: leased.lease, message });
        void this.work();
      },
      acked: (leased) => ledger.settled(nameOf(leased), leased.position.seq),
      expired: (leased) => ledger.note(`the lease ${leased.lease} was over`),
      gap: (stream) => ledger.object(`${stream} has a gap`),
      unsubscribed: () => {
        ledger.note(`${this.member} has unsubscribed`);
        this.hasLeft = true;
      },
    };
  }

  unsubscribe(): void {
    if (this.isAlive) this.consumer?.unsubscribe();
  }

  disconnect(): void {
    if (this.isAlive) this.consumer?.disconnect();
    this.hasLeft = true;
  }

  private async work(): Promise<void> {
    if (this.isWorking) return;
    this.isWorking = true;
    const { world, random, ledger } = this.around;
    for (let job = this.jobs[0]; job !== undefined; job = this.jobs[0]) {
      await world.sleep(random.between(0, this.paceMs));
      if (!this.isAlive) return;
      // It may have been taken away meanwhile.
      if (this.jobs[0] !== job) continue;
      this.jobs.shift();
      const { stream, epoch, message } = job;
      if (this.consumer instanceof QueueConsumer) {
        const isRefused = random.chance(0.1);
        if (isRefused) this.consumer.settle(epoch, "nack", random.pick([0, 50, 500]));
        else if (this.consumer.settle(epoch, "ack"))
          ledger.processed(logName(stream, message.position.generation), message.position.seq);
        continue;
      }
      ledger.processed(logName(stream, message.position.generation), message.position.seq);
      const outcome = this.consumer?.ack(stream, epoch, message.position);
      if (outcome === "ahead") ledger.object(`${stream} ${message.position.seq} is said to be ahead`);
    }
    this.isWorking = false;
  }
}
