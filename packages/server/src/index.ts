/** What another program gets: the server, the types of its options, and the error that names what is wrong with them. */
export {
  createServer,
  DEFAULTS,
  type RunningServer,
  type ServerOptions,
  type ServerSettings,
  withDefaults,
} from "./compose.ts";
export { ConfigError } from "./config/problem.ts";
export type { Logger, LogLevel, LogOptions } from "./observe/log.ts";
