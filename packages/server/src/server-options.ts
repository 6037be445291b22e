/**
 * The options of a server and the settings that follow from them. `createServer` fills in the defaults; tests and the simulator
 * do so by themselves.
 */
import type { Authorize } from "./auth/callback-identity.ts";
import { settingsFrom } from "./config/load.ts";
import { ConfigError } from "./config/problem.ts";
import type { Settings, SettingsInput } from "./config/schema.ts";
import type { LogOptions } from "./observe/log.ts";
import type { TracerProvider } from "./observe/traces.ts";
import type { MetricSink } from "./sessions/events.ts";

/**
 * The options of an embedding program: any setting, and what only code can provide. Unknown or malformed options are
 * refused.
 */
export interface ServerOptions extends Omit<SettingsInput, "log"> {
  /** Decides what each caller may do, instead of tokens. */
  readonly authorize?: Authorize | undefined;
  /** False: opens no port; the server is used through `handler` and `streams`. */
  readonly listen?: boolean | undefined;
  /** JSON lines on standard error, the program's own logger, or nothing. */
  readonly log?: LogOptions | false | undefined;
  /** Where spans go; undefined: to the global provider, if there is one. */
  readonly tracing?: TracerProvider | false | undefined;
  /** Gets faults whose details no client sees; by default they are logged. */
  readonly report?: Report | undefined;
  /** Gets a data point for every event of a session. Must not throw. */
  readonly onSessionEvent?: MetricSink | undefined;
}

/** All settings, with defaults filled in. */
export interface ServerSettings extends Omit<Settings, "log"> {
  readonly listen?: false | undefined;
  readonly log: LogOptions | false;
  readonly tracing?: TracerProvider | false | undefined;
  readonly report: Report;
  readonly authorize: Authorize | undefined;
  readonly onSessionEvent?: MetricSink | undefined;
}

export type Report = (what: string, fault: unknown, requestId?: string) => void;

/** Fills in the defaults. Throws a ConfigError that names every problem. */
export function withDefaults(given: ServerOptions = {}): ServerSettings {
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw new ConfigError(["the options must be an object, like { port: 8080 }"]);
  }
  const { report, authorize, listen, log, tracing, onSessionEvent, ...options } = given;
  const { logger, ...lines } = log || {};
  const settings = settingsFrom({ ...options, log: lines }, authorize !== undefined);
  return {
    ...settings,
    authorize,
    ...(listen === false && { listen }),
    log: log === false ? false : { ...settings.internal.log, ...settings.log, ...(logger && { logger }) },
    ...(tracing !== undefined && { tracing }),
    ...(onSessionEvent !== undefined && { onSessionEvent }),
    report: report ?? ((what, fault) => console.error(what, fault)),
  };
}

export const DEFAULTS: ServerSettings = withDefaults();
