/** What another program gets: the server, and the types of its options. */
export { createServer, DEFAULTS, type RunningServer, type ServerOptions } from "./compose.ts";
export type { Logger, LogLevel, LogOptions } from "./observe/log.ts";
