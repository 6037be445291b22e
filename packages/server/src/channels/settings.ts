/** The settings of channels: general ones, and those of one project. Read by the configuration schema. */
import { z } from "zod";
import { bytes, count, jsonObject, ms } from "../core/setting.ts";
import { settingGroup } from "../core/setting-group.ts";
import { parseFilter } from "../core/topic.ts";
import { CHANNEL_LIMITS as CHANNEL } from "./defaults.ts";

const channel = {
  bodyBytes: bytes(CHANNEL.bodyBytes, "The largest body of one publish."),
  rate: count(CHANNEL.rate, "Publishes to one channel within a window, on all nodes together."),
  windowMs: ms(CHANNEL.windowMs, "How long such a window is."),
  messages: count(CHANNEL.messages, "Messages that a channel keeps, and up to a twentieth more.", {
    max: 1_000_000,
  }),
  ttlMs: ms(CHANNEL.ttlMs, "How long a channel is kept after its END."),
  idleMs: ms(CHANNEL.idleMs, "A channel without END and without a publish for this long is abandoned."),
};

export const channelSettings = { channel: settingGroup("Channels", CHANNEL, channel) };

const MAX_FILTERS = 1_000;

const some = z.strictObject(
  Object.fromEntries(Object.entries(channel).map(([name, setting]) => [name, setting.unwrap().optional()])) as {
    [K in keyof typeof channel]: z.ZodOptional<z.ZodInt>;
  },
);
const filters = z
  .record(
    z.string().refine((text) => parseFilter(text) !== undefined),
    some,
  )
  .refine((all) => Object.keys(all).length <= MAX_FILTERS);

/** The limits that a project may override, and within it for channels whose ids match a filter. */
export const ownChannelLimits = jsonObject(
  some.extend({ filters: filters.optional() }),
  `an object of settings of the group channel, and filters, an object of such objects by topic filter, like {"rate": 50, "filters": {"chat/#": {"rate": 100}}}`,
  "Limits of the channels of this project, where they differ from the general ones.",
);
