/** The settings of groups. Read by the configuration schema. */
import { count, ms } from "../core/setting.ts";
import { settingGroup } from "../core/setting-group.ts";
import { GROUP_LIMITS as GROUP } from "./defaults.ts";

export const groupSettings = {
  group: settingGroup("Groups", GROUP, {
    findLeaderMs: ms(GROUP.findLeaderMs, "How often a member without a leader looks for one."),
    pingMs: ms(GROUP.pingMs, "How often a member pings its leader."),
    pingTimeoutMs: ms(
      GROUP.pingTimeoutMs,
      "A member whose ping is not answered within this time gives up its streams and connects again.",
    ),
    memberTimeoutMs: ms(
      GROUP.memberTimeoutMs,
      "A leader gives the streams of a member to others if it has not heard from it for this long.",
    ),
    unsubscribeMs: ms(GROUP.unsubscribeMs, "How long a member that unsubscribes may finish the messages in flight."),
    drainMs: ms(GROUP.drainMs, "How long a member may finish the messages in flight of a stream that it gives back."),
    resendMs: ms(GROUP.resendMs, "How often a message between a member and its leader is sent again."),
    reassignMs: ms(GROUP.reassignMs, "How long a leader collects changes before it assigns streams again."),
    progressMs: ms(GROUP.progressMs, "How long acknowledgements wait for others before they are stored together."),
    credit: count(GROUP.credit, "The credit of a member that does not set its own: its messages in flight."),
  }),
};
