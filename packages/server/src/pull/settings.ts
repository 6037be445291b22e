/** The settings of pull. Read by the configuration schema. */
import { bytes, count, ms } from "../core/setting.ts";
import { settingGroup } from "../core/setting-group.ts";
import { PULL_LIMITS as PULL } from "./defaults.ts";

export const pullSettings = {
  pull: settingGroup("Pull", PULL, {
    outstandingMessages: count(
      PULL.outstandingMessages,
      "Unacknowledged messages of a pull stream that sets no limit of its own.",
    ),
    outstandingBytes: bytes(PULL.outstandingBytes, "The bytes of those messages."),
    snapshotMs: ms(PULL.snapshotMs, "How long a snapshot is kept."),
  }),
};
