/** What another program gets: the server, the types of its options, and how to make tokens for it. */
export type { Authorize, AuthorizeRequest, AuthorizeVerdict } from "./auth/authorize.ts";
export { type MintRequest, mint } from "./auth/mint.ts";
export { AUTH_DEFAULTS, type AuthOptions, type ProjectAuth } from "./auth/options.ts";
export { createServer, DEFAULTS, type RunningServer, type ServerOptions } from "./compose.ts";
export type { Action, ActionName, RouteName } from "./core/action.ts";
export { CORS_DEFAULTS, type CorsOptions } from "./doors/http/cors.ts";
