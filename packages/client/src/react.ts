/**
 * Hooks for React 18 and 19 over a live session: the session of the page, the messages of a stream, presence on a stream.
 *
 * Invariants: nothing happens while React renders, so a server that renders sends no request. Components that ask for the same
 * session share it, and a component that is mounted twice, as in strict mode, opens none twice. The session stays open when the last
 * component goes, because it is the page's.
 */
import { useCallback, useEffect, useRef, useState } from "react";
import type { SluiceError } from "./error.ts";
import type { CatchUp, SubscriptionEnd } from "./live/cursor.ts";
import type { Member } from "./live/events.ts";
import type { LiveSession } from "./live/live-session.ts";
import type { Presence } from "./live/presence.ts";
import type { LiveStatus, LiveSubscribeOptions } from "./live/subscribe-options.ts";
import type { StreamMessage } from "./message.ts";
import { countOption } from "./options.ts";
import type { Gap } from "./read-options.ts";
import type { SessionOptions } from "./session-options.ts";
import type { Sluice } from "./sluice.ts";

export interface UsedSession {
  /** Undefined until the session is open. */
  readonly session: LiveSession | undefined;
  readonly status: LiveStatus;
  /** Why the session could not be opened. Later errors go to `session.on("error")`. */
  readonly error: SluiceError | undefined;
}

export interface UseStreamOptions<T> extends Pick<LiveSubscribeOptions, "from"> {
  /** How many of the latest messages the hook returns; 100 by default, and 0 for a component that only uses `onMessage`. */
  readonly keep?: number | undefined;
  /** Called once with every message, before the component renders it. */
  readonly onMessage?: ((message: StreamMessage<T>) => unknown) | undefined;
}

export interface UsedStream<T> {
  /** The latest messages that came while the component was mounted. */
  readonly messages: readonly StreamMessage<T>[];
  /** How the last catch-up went; undefined before the first one is over. */
  readonly catchUp: CatchUp | undefined;
  /** The last range of messages that is lost. */
  readonly gap: Gap | undefined;
  /** Why no message will follow. */
  readonly end: SubscriptionEnd | undefined;
}

export interface UsedPresence {
  /** The sessions that are live on the stream, this one included. */
  readonly members: readonly Member[];
  /** Changes what the others see of this session. */
  readonly setState: (state: unknown) => void;
}

/** How long a session that could not be opened is left before the next try, at first and at most. */
const AGAIN_MS = 250;
const MAX_AGAIN_MS = 10_000;

const CONNECTING: UsedSession = { session: undefined, status: "connecting", error: undefined };
const NOTHING: UsedStream<never> = { messages: [], catchUp: undefined, gap: undefined, end: undefined };
const NO_MEMBERS: readonly Member[] = [];

/** The live session of the page. The options of the first component that uses it count. */
export function useSession(sluice: Sluice, options: SessionOptions = {}): UsedSession {
  const [used, setUsed] = useState(CONNECTING);
  const latest = useLatest(options);
  // Another session only under another name: options that are written in place are a new object with every render.
  const { name } = options;
  useEffect(() => {
    let isOver = false;
    let stop = () => {};
    let failures = 0;
    const open = async (): Promise<void> => {
      try {
        const session = await sluice.session({ ...latest.current, name });
        if (isOver) return;
        const tell = () => setUsed({ session, status: session.status, error: undefined });
        stop = session.on("status", tell);
        tell();
      } catch (error) {
        if (isOver) return;
        setUsed({ session: undefined, status: "offline", error: error as SluiceError });
        const { retryable, retryAfterMs = 0 } = error as SluiceError;
        if (!retryable) return;
        // A client that gives up at once has not waited between its tries.
        const delayMs = Math.min(AGAIN_MS * 2 ** failures++, MAX_AGAIN_MS) * (0.5 + Math.random() / 2);
        const timer = setTimeout(() => void open(), Math.max(delayMs, retryAfterMs));
        stop = () => clearTimeout(timer);
      }
    };
    setUsed(CONNECTING);
    void open();
    return () => {
      isOver = true;
      stop();
    };
  }, [sluice, name, latest]);
  return used;
}

/** Follows a stream while the component is mounted. Without a session or a path it waits. */
export function useStream<T = unknown>(
  session: LiveSession | undefined,
  path: string | undefined,
  options: UseStreamOptions<T> = {},
): UsedStream<T> {
  const [used, setUsed] = useState<UsedStream<T>>(NOTHING);
  const keep = countOption("keep", options.keep, 100);
  const latest = useLatest({ ...options, keep });
  const { from } = options;
  useEffect(() => {
    setUsed(NOTHING);
    if (session === undefined || path === undefined) return;
    const add = (more: Partial<UsedStream<T>>) => setUsed((before) => ({ ...before, ...more }));
    const take = (message: StreamMessage<T>) => {
      const { keep: count, onMessage } = latest.current;
      if (count > 0) setUsed((before) => ({ ...before, messages: [...before.messages, message].slice(-count) }));
      return onMessage?.(message);
    };
    const told = {
      from,
      onGap: (gap: Gap) => add({ gap }),
      onCatchUp: (catchUp: CatchUp) => add({ catchUp }),
      onEnd: (end: SubscriptionEnd) => add({ end }),
    };
    const subscription = unlessClosed(
      () => session.subscribe<T>(path, take, told),
      (error) => add({ end: { reason: "closed", error } }),
    );
    return () => subscription?.unsubscribe();
  }, [session, path, from, latest]);
  return used;
}

/** Shows this session on a stream while the component is mounted, with a small JSON value, and tells which sessions are there. */
export function usePresence(session: LiveSession | undefined, path: string | undefined, state?: unknown): UsedPresence {
  const [members, setMembers] = useState(NO_MEMBERS);
  const presence = useRef<Presence | undefined>(undefined);
  const json = JSON.stringify(state);
  const latest = useLatest(json);
  useEffect(() => {
    if (session === undefined || path === undefined) return;
    const { current } = latest;
    const mine = { state: current === undefined ? undefined : JSON.parse(current) };
    const entered = unlessClosed(() => session.presence(path, mine));
    if (entered === undefined) return;
    presence.current = entered;
    setMembers(entered.members);
    const stop = entered.on("change", setMembers);
    return () => {
      stop();
      entered.leave();
      presence.current = undefined;
      setMembers(NO_MEMBERS);
    };
  }, [session, path, latest]);
  useEffect(() => {
    // By its text, because a state that is written in place is a new object with every render.
    if (json !== undefined) presence.current?.setState(JSON.parse(json));
  }, [json]);
  const setState = useCallback((next: unknown) => presence.current?.setState(next), []);
  return { members, setState };
}

/** A component may be mounted after the page closed its session. An error that an effect throws would take down the whole page. */
function unlessClosed<T>(use: () => T, closed: (error: SluiceError) => void = () => {}): T | undefined {
  try {
    return use();
  } catch (error) {
    if ((error as Partial<SluiceError>).code !== "closed") throw error;
    closed(error as SluiceError);
    return undefined;
  }
}

/** The value of the last render, for functions that run between renders. */
function useLatest<T>(value: T): { readonly current: T } {
  const latest = useRef(value);
  useEffect(() => {
    latest.current = value;
  });
  return latest;
}
