/**
 * This node among the other nodes: it renews its record and listens on its channel. `open.ts` starts it once Redis has proved
 * fit, and closes it.
 *
 * Invariants: a record expires by the clock of the master that holds it (lua/alive.lua). Nodes open no connection to each other:
 * messages share the connection of notifications. A message is published once; its failure is silent and delays no commit.
 */
import type { Cancel, World } from "../../core/world.ts";
import { type LiveNode, NODE_RENEW_MS, type ToldListener, type Unwatch } from "../contract.ts";
import { checkTold, ToldListeners } from "../nodes.ts";
import type { Calls } from "./calls.ts";
import { bucketOf, type Keys, NODES_BUCKET } from "./keys.ts";
import type { Topology } from "./topology.ts";

/** Bytes of messages that no master has answered yet. Further messages are dropped, because they would delay commits. */
const MAX_SENDING_BYTES = 4 * 1024 * 1024;
/** How long a node that closes waits until its record is removed. */
const LEAVE_MS = 500;
/** A message is the id of the sending node, a space, and the bytes. */
const SEPARATOR = " ";

export class Peers {
  private readonly listeners = new ToldListeners();
  private readonly bucket: number;
  private readonly channel: string;
  private sendingBytes = 0;
  private timer: Cancel | undefined;
  private isClosed = false;

  constructor(
    /** The id of this node. */
    private readonly id: string,
    private readonly topology: Topology,
    private readonly calls: Calls,
    private readonly keys: Keys,
    private readonly world: World,
    /** How long a start waits for the subscription. */
    private readonly connectMs: number,
  ) {
    this.bucket = bucketOf(id);
    this.channel = keys.node(id);
    const channel = Buffer.from(this.channel);
    topology.subscriber.on("smessageBuffer", (to: Buffer, message: Buffer) => {
      if (to.equals(channel)) this.arrived(message);
    });
  }

  /** Subscribes, then writes the record, so that a listed node can be reached. If either fails, a renewal repeats it. */
  async start(): Promise<void> {
    this.topology.onReconnect(() => void this.subscribe());
    await this.atMost(this.connectMs, this.subscribe());
    await this.record();
    this.renewLater();
  }

  async nodes(): Promise<readonly LiveNode[]> {
    const reply = await this.calls.runPassing("nodes", NODES_BUCKET, [this.keys.nodes()], []);
    const words = (reply[3] as readonly Buffer[]).map(String);
    const found: LiveNode[] = [];
    for (let i = 0; i < words.length; i += 2) found.push({ id: words[i]!, aliveUntilMs: Number(words[i + 1]) });
    return found;
  }

  tell(node: string, bytes: Uint8Array): void {
    checkTold(bytes);
    const message = Buffer.concat([Buffer.from(this.id + SEPARATOR), bytes]);
    if (this.sendingBytes + message.length > MAX_SENDING_BYTES) return;
    const over = () => {
      this.sendingBytes -= message.length;
    };
    try {
      const master = this.topology.nodeOf(bucketOf(node));
      this.sendingBytes += message.length;
      master.ask(["SPUBLISH", this.keys.node(node), message]).then(over, () => {
        over();
        // The slot may have moved.
        this.topology.refresh();
      });
    } catch {
      // No master is known for that channel, so the message is lost.
    }
  }

  onTold(listener: ToldListener): Unwatch {
    return this.listeners.add(listener);
  }

  /** Stops all work and leaves the record to expire. */
  stop(): void {
    this.isClosed = true;
    this.timer?.();
    this.listeners.clear();
  }

  /** Removes the record. Tried once, because an unreachable Redis must not delay the end of this node. */
  async close(): Promise<void> {
    this.stop();
    const removed = this.removeRecord();
    // The record expires by itself, so a silent Redis must not delay the end of this node.
    await new Promise<void>((resolve) => {
      const cancel = this.world.after(LEAVE_MS, resolve);
      const done = () => {
        cancel();
        resolve();
      };
      removed.then(done, done);
    });
  }

  private async removeRecord(): Promise<void> {
    await this.topology.nodeOf(NODES_BUCKET).ask(["ZREM", this.keys.nodes(), this.id]);
  }

  private arrived(message: Buffer): void {
    const end = message.indexOf(SEPARATOR);
    if (end > 0) this.listeners.hear(message.subarray(end + 1), message.toString("latin1", 0, end));
  }

  private atMost(ms: number, work: Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.world.after(ms, resolve);
      void work.then(() => {
        cancel();
        resolve();
      });
    });
  }

  private renewLater(): void {
    this.timer = this.world.after(NODE_RENEW_MS, () => {
      void this.renew().finally(() => {
        if (!this.isClosed) this.renewLater();
      });
    });
  }

  private async renew(): Promise<void> {
    await this.record();
    if (this.isClosed) return;
    try {
      // An empty message counts the listeners of this node's channel: zero means that the subscription was lost.
      const listeners = await this.calls.command(this.bucket, ["SPUBLISH", this.channel, ""]);
      if (listeners === 0 && !this.isClosed) await this.subscribe();
    } catch {
      // The next renewal looks again.
    }
  }

  private async record(): Promise<void> {
    try {
      await this.calls.runPassing("alive", NODES_BUCKET, [this.keys.nodes()], [this.id]);
    } catch {
      // The next renewal writes the record.
    }
  }

  /** Unsubscribes first, even if the client believes that the subscription stands, because its list would get a second entry. */
  private async subscribe(): Promise<void> {
    const { subscriber } = this.topology;
    try {
      await subscriber.sunsubscribe(this.channel);
      await subscriber.ssubscribe(this.channel);
    } catch {
      // The next renewal notices and subscribes again.
    }
  }
}
