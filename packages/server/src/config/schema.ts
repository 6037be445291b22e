/**
 * Every setting of the server: the groups that features and other parts declare, joined. File, environment, flags and
 * `createServer` are checked against it; the reference is generated from it.
 *
 * Invariants: names of sizes and times end with their unit. A value that the wire contract or the format on disk fixes
 * is not a setting. Settings that no operator would change are under `internal`.
 */
import { z } from "zod";
import { channelSettings } from "../channels/settings.ts";
import { derivedPercent, ms, optionalPort, origin, port, seconds, text, yesNo } from "../core/setting.ts";
import type { SettingGroup } from "../core/setting-group.ts";
import { groupSettings } from "../groups/settings.ts";
import { liveSettings } from "../live/settings.ts";
import { pullSettings } from "../pull/settings.ts";
import { SESSION_LIMITS } from "../sessions/defaults.ts";
import { sessionSettings } from "../sessions/settings.ts";
import { TAIL_LIMITS } from "../streams/defaults.ts";
import { streamSettings } from "../streams/settings.ts";
import { wakeSettings } from "../wakes/settings.ts";
import { doorSettings, engineSettings, operatorSettings, projects } from "./server-settings.ts";

/** One line per feature, in the order of the reference. */
const groups = {
  ...operatorSettings,
  ...doorSettings,
  ...streamSettings,
  ...sessionSettings,
  ...channelSettings,
  ...liveSettings,
  ...groupSettings,
  ...pullSettings,
  ...wakeSettings,
  ...engineSettings,
};

type Groups = typeof groups;
type GroupName = keyof Groups;
type Limited = Exclude<GroupName, "log">;

const strict = <S extends z.ZodRawShape>(shape: S) => z.strictObject(shape).prefault({} as never);
type Strict<S extends z.ZodRawShape> = z.ZodPrefault<z.ZodObject<S, z.core.$strict>>;

function shapes<P extends "settings" | "internal">(part: P) {
  const all = Object.entries(groups).map(([name, group]) => [name, strict((group as SettingGroup)[part])]);
  return Object.fromEntries(all) as { [N in GroupName]: Strict<Groups[N][P]> };
}

export const schema = z.strictObject({
  host: text("127.0.0.1", "a host name or an address of this machine", "The address to listen on.", {
    flag: "--host",
    operand: "HOST",
  }),
  port: port(4437, "The port to listen on; 0 picks a free one.", { flag: "--port" }),
  data: text(
    "./sluice-data",
    "the path of a directory",
    "The data directory, of one server at a time; a relative path starts at the working directory.",
    { flag: "--data", operand: "DIR" },
  ),
  memory: yesNo(false, "Keeps everything in memory; the data is lost when the server stops.", { flag: "--memory" }),
  grpcPort: optionalPort(
    "auto for `sluice serve`, off for a server in a program",
    "The port for clients of Google Cloud Pub/Sub; 0 picks a free one, auto takes 8085 if it is free, off opens none.",
    { flag: "--grpc-port" },
  ),
  publicUrl: origin(
    "Scheme, host and port under which clients reach this server; the links that it sends start with it.",
  ),
  drainMs: ms(
    10_000,
    "How long a shutdown waits for requests in flight; then it cuts them off.",
    { min: 0 },
    { flag: "--drain-ms" },
  ),
  longPollMs: ms(TAIL_LIMITS.longPollMs, "How long a long-poll waits for a message.", {}, { flag: "--long-poll-ms" }),
  sessionTtlSeconds: seconds(
    SESSION_LIMITS.ttlSeconds,
    "How long a session lives without being used.",
    {},
    { flag: "--session-ttl-seconds" },
  ),
  projectSharePercent: derivedPercent(
    "100 if at most one project is configured, else 50",
    "The share of one project in the limits for all projects: tail.readers, wake.subscriptions, concurrent webhooks.",
  ),
  ...shapes("settings"),
  projects,
  internal: strict(shapes("internal")),
});

/** The settings as checked, without the defaults that follow from other settings. */
export type ParsedSettings = z.output<typeof schema>;
/** All settings, with defaults filled in. */
export interface Settings extends Omit<ParsedSettings, "webhook" | "projectSharePercent"> {
  readonly webhook: Required<ParsedSettings["webhook"]> & { readonly allowLoopback: boolean };
  readonly projectSharePercent: number;
}
/** The settings that may be given; the remaining ones have defaults. */
export type SettingsInput = z.input<typeof schema>;

/** The limits of every part: the public settings of its group and the internal ones together. */
export type Limits = {
  readonly [N in Limited]: Settings[N] & z.output<z.ZodObject<Groups[N]["internal"]>>;
};

/** Joins both. The group `log` is not a limit. */
export function limitsOf<S extends Pick<Settings, Limited | "internal">>(settings: S): Omit<S, Limited> & Limits {
  const { internal } = settings;
  const names = (Object.keys(groups) as GroupName[]).filter((name) => name !== "log");
  const limits = names.map((name) => [name, { ...internal[name], ...settings[name as Limited] }]);
  return { ...settings, ...(Object.fromEntries(limits) as Limits) };
}

/** The headings of the reference, in its order; a group without public settings has none. */
export const HEADINGS: Readonly<Record<string, string>> = {
  "": "The server",
  projects: "Settings of one project",
  ...Object.fromEntries(
    Object.entries(groups).flatMap(([name, { title, settings }]) =>
      Object.keys(settings).length === 0 ? [] : [[name, title]],
    ),
  ),
};
