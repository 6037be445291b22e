/** The settings of sessions and of fan-out into their inboxes. Read by the configuration schema. */
import { bytes, count, ms, yesNo } from "../core/setting.ts";
import { settingGroup } from "../core/setting-group.ts";
import { FANOUT_LIMITS as FANOUT, SESSION_LIMITS as SESSION } from "./defaults.ts";

const { ttlSeconds: _, ...sessionLimits } = SESSION;

export const sessionSettings = {
  session: settingGroup("Sessions", sessionLimits, {
    subscriptions: count(SESSION.subscriptions, "Streams that one session may be subscribed to."),
    keptMessages: count(SESSION.keptMessages, "Copies that an inbox keeps, and up to a twentieth more."),
    keptBytes: bytes(SESSION.keptBytes, "Bytes of copies that an inbox keeps, without large payloads."),
  }),
  fanout: settingGroup("Copying to sessions", FANOUT, {
    queue: yesNo(FANOUT.queue, "Whether copies to many subscribers go through a queue."),
    queueThreshold: count(
      FANOUT.queueThreshold,
      "With more subscribers than this, a publish does not wait, and copies are queued.",
    ),
    maxInline: count(FANOUT.maxInline, "Without a queue, a publish to more subscribers than this does not wait."),
    timeoutMs: ms(FANOUT.timeoutMs, "How long one copy may take."),
    breakerFailures: count(
      FANOUT.breakerFailures,
      "Fan-outs with failures in a row after which publishes do not wait.",
    ),
    breakerRecoveryMs: ms(FANOUT.breakerRecoveryMs, "After this time one publish waits again, as a test."),
  }),
};
