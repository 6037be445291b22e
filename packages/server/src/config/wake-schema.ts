/** The settings of wake subscriptions; a part of the schema. The defaults are those of the wakes feature. */
import { WAKE_LIMITS as WAKE } from "../wakes/limits.ts";
import { bytes, count, ms } from "./setting.ts";

export const wake = {
  bodyBytes: bytes(WAKE.bodyBytes, "The largest body of a request about a subscription."),
  items: count(WAKE.items, "Streams or acknowledgements named in one request."),
  leaseMs: ms(WAKE.leaseMs, "How long a wake is held when the subscription does not say."),
  minLeaseMs: ms(WAKE.minLeaseMs, "The shortest lease that a subscription may ask for."),
  maxLeaseMs: ms(WAKE.maxLeaseMs, "The longest lease that a subscription may ask for."),
  tokenMs: ms(WAKE.tokenMs, "How long the token of a wake is good for, however often its lease is extended."),
  lostAttemptMs: ms(
    WAKE.lostAttemptMs,
    "When an attempt to tell of a wake counts as lost; more than webhook.timeoutMs.",
  ),
  retryMs: ms(WAKE.retryMs, "The wait after the first failed attempt; it doubles with each further one."),
  maxRetryMs: ms(WAKE.maxRetryMs, "The longest wait between two attempts."),
  recheckMs: ms(
    WAKE.recheckMs,
    "The wait after an internal fault before a subscription is looked at again; it doubles.",
  ),
  maxRecheckMs: ms(WAKE.maxRecheckMs, "The longest such wait."),
  discoverMs: ms(
    WAKE.discoverMs,
    "How often a node on Redis looks for subscriptions that other nodes have created or changed.",
  ),
  deliveries: count(WAKE.deliveries, "Webhooks and wake events under way at once."),
  subscriptions: count(WAKE.subscriptions, "Subscriptions that one server takes on, in all projects together."),
  explicitLinks: count(WAKE.explicitLinks, "Streams linked by name, in all subscriptions together."),
  links: count(WAKE.links, "Streams that one subscription is linked to."),
  streamsPerWake: count(WAKE.streamsPerWake, "Streams that one wake takes on; the others wait for the next."),
  queuedRequests: count(
    WAKE.queuedRequests,
    "Requests that may wait for one subscription; beyond it they are refused.",
  ),
  queuedNotes: count(WAKE.queuedNotes, "Streams that may wait to be linked; beyond it everything is looked at again."),
  queuedStreams: count(WAKE.queuedStreams, "Streams whose events may wait; beyond it everything is looked at again."),
  rememberedPaths: count(WAKE.rememberedPaths, "Paths for which it is remembered who wants to hear of them."),
  page: count(WAKE.page, "Names or rows looked at in one step when all are walked.", { max: 100_000 }),
};
