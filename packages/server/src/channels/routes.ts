/**
 * The HTTP routes of channels: parse, call the service, render. Called by the router.
 *
 * Invariants: a publish passes its checks in the order that service.ts gives. Readers of events count against the limit
 * of the audience and are drained with it.
 */
import { BEGINNING, formatOffset, header, NOW, type Position, ZERO } from "@sluice/protocol";
import type { Audience } from "../core/audience.ts";
import { type ConnectionLimits, Connections } from "../core/connection.ts";
import { type Codec, Feeds } from "../core/feed.ts";
import { Follower } from "../core/follower.ts";
import type { Headers, HttpRequest, Reply } from "../core/http.ts";
import { Refusal } from "../core/refusal.ts";
import type { CallTo } from "../core/route.ts";
import type { Sink } from "../core/sink.ts";
import { endWith, SSE, sseHeaders } from "../core/sse.ts";
import type { World } from "../core/world.ts";
import type { ChannelLimits } from "./defaults.ts";
import { listChannels } from "./listing.ts";
import { type From, parseFrom, parseMessages, parseOnly, parseStop, parseWait } from "./parse.ts";
import { CHANNEL_EVENTS, ChannelLog, type ChannelPage, STOP_EVENTS } from "./reading.ts";
import type { PublishRefusal } from "./rules.ts";
import type { Channels } from "./service.ts";
import type { Stop } from "./stopping.ts";

export const PUBLISH_ADDRESS = "/v1/{project}/channels/{channel}/publish";
export const CHANNELS_ADDRESS = "/v1/{project}/channels";
export const STOP_ADDRESS = "/v1/{project}/channels/{channel}/stop";
export const EVENTS_ADDRESS = "/v1/{project}/channels/{channel}/events";

export interface ReaderLimits extends Omit<ConnectionLimits, "lifetimeMs"> {
  readonly sseMs: number;
  readonly pageBytes: number;
}

export class ChannelRoutes {
  private readonly feeds = new Feeds<ChannelPage>();
  private readonly connections: Connections;

  constructor(
    private readonly channels: Channels,
    world: World,
    private readonly audience: Audience,
    private readonly limits: ReaderLimits,
  ) {
    this.connections = new Connections(world, audience, { ...limits, lifetimeMs: limits.sseMs });
  }

  /** Connections that follow a channel now, and the channels that are followed. */
  get readers(): number {
    return this.connections.size;
  }

  get watched(): number {
    return this.feeds.size;
  }

  async publish(project: string, channel: string, request: HttpRequest): Promise<Reply> {
    const limits = this.channels.limitsFor(project, channel);
    const body = await request.body(limits.bodyBytes);
    if (body.kind === "too-large") throw this.channels.tooLarge(limits);
    const { bytes } = body;
    const publish = { bytes: bytes.length, messages: () => parseMessages(bytes) };
    const outcome = await this.channels.publish(project, channel, publish);
    if (outcome.kind !== "published") throw refusalOf(outcome, channel);
    const { position, sequence, gap, stop } = outcome;
    const expected = gap === undefined ? undefined : { expected: gap };
    const answer = { offset: formatOffset(position), sequence, gap: expected, stop };
    const headers: Headers = [header.contentType, "application/json", header.cacheControl, "no-store"];
    return { status: 202, headers, body: JSON.stringify(answer) };
  }

  async list({ project, access }: CallTo<typeof CHANNELS_ADDRESS>, { search }: HttpRequest): Promise<Reply> {
    const { engine, limitsFor } = this.channels;
    const { found, next } = await listChannels(engine, project, access, limitsFor, search);
    const headers: Headers = [header.contentType, "application/json", header.cacheControl, "no-store"];
    return { status: 200, headers, body: JSON.stringify({ channels: found, next }) };
  }

  async stop(project: string, channel: string, request: HttpRequest): Promise<Reply> {
    const { bodyBytes } = this.channels.limitsFor(project, channel);
    const body = await request.body(bodyBytes);
    if (body.kind === "too-large") throw new Refusal("too-large", `a body may have at most ${bodyBytes} bytes`);
    const { kind } = await this.channels.stop(project, channel, parseStop(body.bytes));
    if (kind === "absent") throw new Refusal("channel-not-found", `there is no channel ${channel} to stop`);
    if (kind === "ended")
      throw new Refusal("channel-ended", `the channel ${channel} has ended; use another channel id`);
    return { status: 202, headers: [header.cacheControl, "no-store"] };
  }

  async events(project: string, channel: string, request: HttpRequest): Promise<Reply> {
    const from = parseFrom(request);
    const wait = parseWait(request);
    const codec = parseOnly(request) === "stop" ? STOP_EVENTS : CHANNEL_EVENTS;
    const leave = this.audience.enter(project, request);
    try {
      const limits = this.channels.limitsFor(project, channel);
      const { engine } = this.channels;
      const { pageBytes } = this.limits;
      const page = await this.start(project, channel, from, limits);
      if (page === undefined && !wait) throw absent(channel);
      if (page?.isOver && page.messages.length === 0) {
        leave();
        // A 204 tells an EventSource not to reconnect.
        return { status: 204, headers: [header.cacheControl, "no-store"] };
      }
      const log = new ChannelLog({ engine, project, channel, pageBytes, ttlMs: limits.ttlMs });
      const stood = from === BEGINNING || from === NOW ? ZERO : from;
      return this.follow({ log, waits: wait, codec }, page ?? stood, limits, leave);
    } catch (fault) {
      leave();
      throw fault;
    }
  }

  /** The first page; undefined if the channel does not exist. */
  private async start(
    project: string,
    channel: string,
    from: From,
    limits: ChannelLimits,
  ): Promise<ChannelPage | undefined> {
    let after: Position | undefined = from === BEGINNING || from === NOW ? undefined : from;
    let stopped: Stop | undefined;
    if (from === NOW) {
      const tail = await this.channels.tail(project, channel, limits);
      if (tail === undefined) return undefined;
      after = tail.position;
      stopped = tail.stop;
    }
    const page = await this.channels.read(project, channel, after, this.limits.pageBytes, limits);
    if (page.kind === "ahead") {
      const nextOffset = formatOffset(page.tail);
      throw new Refusal("offset-ahead", `the offset lies beyond the end of the channel; the end is ${nextOffset}`, {
        nextOffset,
      });
    }
    return page.kind === "page" ? { ...page, stopped } : undefined;
  }

  /** Starts with a page that was read already, or at the reader's position if the channel does not exist yet. */
  private follow(
    wanted: { readonly log: ChannelLog; readonly waits: boolean; readonly codec: Codec<ChannelPage> },
    from: ChannelPage | Position,
    { heartbeatMs }: ChannelLimits,
    leave: () => void,
  ): Reply {
    const live = (sink: Sink) =>
      this.connections.open({ sink, framing: SSE, heartbeatMs, onGone: leave }, (connection) => {
        const { feeds } = this;
        const onEnd = endWith(connection);
        const follower = new Follower({ ...wanted, feeds, connection, onEnd });
        if ("messages" in from) follower.begin(from);
        else follower.resume(from);
      });
    return { status: 200, headers: sseHeaders(), live };
  }
}

function absent(channel: string): Refusal {
  return new Refusal("channel-not-found", `there is no channel ${channel}; wait=true waits for its START`);
}

function refusalOf(refusal: PublishRefusal, channel: string): Refusal {
  switch (refusal.kind) {
    case "not-started":
      return new Refusal("channel-not-started", `the channel ${channel} has not started; publish START first`);
    case "started":
      return new Refusal(
        "channel-started",
        `the channel ${channel} has started with another sequence; START comes once`,
      );
    case "ended":
      return new Refusal(
        "channel-ended",
        `the channel ${channel} has had its END; publish another answer under a new channel id`,
      );
    case "passed":
      return new Refusal(
        "channel-sequence",
        `the sequence ${refusal.sequence} was skipped; the channel is at ${refusal.last}, send a higher sequence`,
      );
    case "taken":
      return new Refusal(
        "channel-sequence",
        `the sequence ${refusal.sequence} of ${channel} holds another message; publish another answer under a new channel id`,
      );
  }
}
