/**
 * The layers, and the imports that each allows: protocol <- core <- engine contract and keeper <- features <- doors <-
 * compose <- cli, and protocol <- client <- cli. The tidy rules read it.
 *
 * Invariants: every source file belongs to exactly one layer. A folder with a `feature.ts` is a feature; any other new
 * folder gets its place here before its first file.
 */
import { existsSync, readdirSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import type { Source } from "./source-tree.ts";

interface Layer {
  readonly name: string;
  readonly where: RegExp;
  /** Other layers; a layer may always import from itself. */
  readonly imports: readonly string[];
  /** Packages from npm. */
  readonly packages?: readonly string[];
  /** Whether its code must run without Node: in a browser or a worker. */
  readonly portable?: boolean;
}

const SERVER = "packages/server/src";
const GROUND = ["engine", "core", "protocol"];
const FEATURES = readdirSync(fileURLToPath(new URL(`../../${SERVER}`, import.meta.url))).filter((folder) =>
  existsSync(fileURLToPath(new URL(`../../${SERVER}/${folder}/feature.ts`, import.meta.url))),
);
/** Every feature may import streams, and the leases that groups and pull share. Compose passes it anything else that belongs to another feature. */
const BELOW_FEATURES = ["feature", "streams", "leases"];
const ENGINES: Readonly<Record<string, readonly string[]>> = { memory: [], disk: ["lmdb"], redis: ["ioredis"] };
const BELOW_CONFIG = [...GROUND, "feature", ...FEATURES, ...Object.keys(ENGINES), "auth", "doors"];
const BELOW_COMPOSE = [...BELOW_CONFIG, "config", "observe", "real-world", "embed"];

export const LAYERS: readonly Layer[] = [
  { name: "protocol", where: /^packages\/protocol\/src\//, imports: [], portable: true },
  {
    name: "client-react",
    where: /^packages\/client\/src\/react(\.ts$|\/)/,
    imports: ["client", "protocol"],
    packages: ["react"],
    portable: true,
  },
  // The library for Node.
  { name: "client-pubsub", where: /^packages\/client\/src\/pubsub(\.ts$|\/)/, imports: ["client", "protocol"] },
  { name: "client", where: /^packages\/client\/src\//, imports: ["protocol"], portable: true },
  { name: "core", where: under("core/"), imports: ["protocol"], packages: ["zod"], portable: true },
  { name: "leases", where: under("leases/"), imports: ["core", "protocol", "engine"], portable: true },
  { name: "engine", where: under("engine/[^/]+$"), imports: ["core", "protocol"], portable: true },
  ...Object.entries(ENGINES).map(([name, packages]) => ({
    name,
    where: under(`engine/${name}/`),
    imports: GROUND,
    packages,
    portable: name === "memory",
  })),
  ...FEATURES.map((name) => ({
    name,
    where: under(`${name}/`),
    imports: [...GROUND, ...BELOW_FEATURES],
    packages: ["zod"],
    portable: true,
  })),
  { name: "feature", where: under("feature\\.ts$"), imports: GROUND, portable: true },
  { name: "auth", where: under("auth/"), imports: ["core", "protocol"], packages: ["jose"], portable: true },
  {
    name: "doors",
    where: under("doors/"),
    // The doors know only the descriptor of features; the webhook door implements ports of wakes, the gRPC door serves pull.
    imports: [...GROUND, "feature", "wakes", "pull", "auth"],
    packages: ["zod", "ws", "protobufjs"],
    portable: true,
  },
  {
    name: "observe",
    where: under("observe/"),
    imports: [...GROUND, ...FEATURES, "doors"],
    packages: ["pino", "@opentelemetry/api", "@opentelemetry/sdk-metrics", "@opentelemetry/exporter-prometheus"],
  },
  { name: "real-world", where: under("real-world\\.ts$"), imports: ["core"] },
  { name: "config", where: under("config/"), imports: [...BELOW_CONFIG, "observe"], packages: ["zod", "yaml"] },
  {
    name: "pubsub",
    where: under("pubsub/"),
    imports: [...GROUND, "streams", "pull", "memory", "disk", "real-world", "client-pubsub"],
  },
  { name: "embed", where: under("embed/"), imports: [...GROUND, "streams", "client"], portable: true },
  { name: "compose", where: under("(compose|server-options)\\.ts$"), imports: BELOW_COMPOSE },
  { name: "index", where: under("index\\.ts$"), imports: [...BELOW_COMPOSE, "compose", "client"] },
  {
    name: "cli",
    where: under("cli(\\.ts$|/)"),
    imports: [...BELOW_COMPOSE, "compose", "client", "client-pubsub"],
    packages: ["commander", "ws"],
  },
  { name: "sluice", where: /^packages\/sluice\/src\//, imports: ["index", "cli"] },
];

function under(pattern: string): RegExp {
  return new RegExp(`^${SERVER}/${pattern}`);
}

export function layerOf(path: string): Layer | undefined {
  return LAYERS.find(({ where }) => where.test(path));
}

/** Returns why this import is not allowed, or undefined. */
export function objection(source: Source, specifier: string): string | undefined {
  const from = layerOf(source.path);
  if (from === undefined || specifier.startsWith("node:")) return undefined;
  const target = targetOf(source.path, specifier);
  if (target === undefined) {
    return from.packages?.includes(specifier) ? undefined : `${from.name} may not import the package ${specifier}`;
  }
  const to = layerOf(target);
  if (to === undefined) return `${specifier} belongs to no layer`;
  return to === from || from.imports.includes(to.name) ? undefined : `${from.name} may not import ${to.name}`;
}

/** The file that an import resolves to, if it is in this repository. */
function targetOf(path: string, specifier: string): string | undefined {
  if (specifier.startsWith(".")) return posix.join(posix.dirname(path), specifier);
  const own = /^@sluice\/([a-z-]+)(?:\/([a-z-]+))?$/.exec(specifier);
  return own ? `packages/${own[1]}/src/${own[2] ?? "index"}.ts` : undefined;
}
