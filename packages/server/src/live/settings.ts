/** The settings of Live. Read by the configuration schema. */
import { bytes, count } from "../core/setting.ts";
import { settingGroup } from "../core/setting-group.ts";
import { LIVE_LIMITS as LIVE } from "./defaults.ts";

export const liveSettings = {
  live: settingGroup("Live connections", LIVE, {
    subscriptions: count(LIVE.subscriptions, "Streams that one session may follow live."),
    notifyBytes: bytes(
      LIVE.notifyBytes,
      "A message with a larger payload is announced to live connections and not pushed; the client reads it.",
    ),
    slowReaderBytes: bytes(
      LIVE.slowReaderBytes,
      "Bytes that may wait for a slow live connection; beyond it the server ends the connection and the client resumes.",
    ),
  }),
};
