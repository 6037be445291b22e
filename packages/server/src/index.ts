/**
 * The public interface for other programs: the server, the types of its options, streams in process, the errors, minting of
 * tokens, and the hub of a session for routers.
 */
export { SluiceError } from "@sluice/client";
export type { Authorize, AuthorizeVerdict } from "./auth/callback-identity.ts";
export type { AuthorizeRequest } from "./auth/identity.ts";
export { type MintRequest, mint } from "./auth/mint.ts";
export { createServer, type RunningServer } from "./compose.ts";
export { ConfigError } from "./config/problem.ts";
export type { Action, Need } from "./core/action.ts";
export type { Mounted, RequestHandler, UpgradeHandler } from "./doors/http/node-mount.ts";
export type {
  AppendOptions,
  CreateOptions,
  EmbeddedStreams,
  ReadOptions,
  ReadResult,
  StreamRecord,
  TailOptions,
} from "./embed/embedded-streams.ts";
export { hubFor } from "./live/rendezvous.ts";
export type { Logger, LogLevel, LogOptions } from "./observe/log.ts";
export { DEFAULTS, type ServerOptions, type ServerSettings, withDefaults } from "./server-options.ts";
