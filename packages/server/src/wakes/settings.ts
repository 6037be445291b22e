/** The settings of wake subscriptions and of the webhooks that they call. Read by the configuration schema. */
import { count, derivedYesNo, ms, yesNo } from "../core/setting.ts";
import { settingGroup } from "../core/setting-group.ts";
import { WAKE_LIMITS, WEBHOOK_LIMITS } from "./defaults.ts";
import { KEY_SETTINGS } from "./keys.ts";

export const wakeSettings = {
  wake: settingGroup("Wake subscriptions", WAKE_LIMITS, {
    leaseMs: ms(WAKE_LIMITS.leaseMs, "The lease of a wake, unless its subscription sets one."),
    maxLeaseMs: ms(WAKE_LIMITS.maxLeaseMs, "The longest lease that a subscription may ask for."),
    subscriptions: count(
      WAKE_LIMITS.subscriptions,
      "Wake subscriptions of one server, in all projects together; see projectSharePercent.",
    ),
    links: count(WAKE_LIMITS.links, "Streams that one subscription may be linked to."),
  }),
  webhook: settingGroup(
    "Webhooks",
    { ...WEBHOOK_LIMITS, ...KEY_SETTINGS },
    {
      allowLoopback: derivedYesNo(
        "true on a loopback listener without keys and without a public address, else false",
        "Whether webhooks may be plain http to this machine, as in development.",
      ),
      allowPrivate: yesNo(
        false,
        "Whether webhooks may go to private networks, by http or https. Link-local and metadata addresses are never allowed.",
      ),
      timeoutMs: ms(WEBHOOK_LIMITS.timeoutMs, "How long a webhook may take to answer."),
    },
  ),
};
