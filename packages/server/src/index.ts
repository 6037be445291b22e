/** What another program gets: the server, and the types of its options. */
export { createServer, DEFAULTS, type RunningServer, type ServerOptions } from "./compose.ts";
