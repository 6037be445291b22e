// Writes doors/grpc/generated-definitions.ts from the definitions that Google's Pub/Sub client carries; with --check it only says
// whether the module is stale. Developers run it after an update of that client; test/tidy runs --check.
//
// The definitions are a checked-in module because the server needs 25 KB of them and nothing else of the client.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import protobuf from "protobufjs";

const FILES = [
  "google/pubsub/v1/pubsub.proto",
  "google/pubsub/v1/schema.proto",
  "google/iam/v1/iam_policy.proto",
  "google/rpc/status.proto",
  "google/rpc/error_details.proto",
];
/** What the messages and services of the door are made of. */
const KEPT = ["google.pubsub", "google.iam", "google.type", "google.rpc", "google.protobuf"];

const isCheck = process.argv.includes("--check");
const named = process.argv.slice(2).find((word) => word !== "--check");
const target =
  named ?? fileURLToPath(new URL("../packages/server/src/doors/grpc/generated-definitions.ts", import.meta.url));
const client = createRequire(import.meta.url).resolve("@google-cloud/pubsub/package.json");
/** The client has the definitions of Pub/Sub, and its transport the common ones. */
const folders = [
  join(dirname(client), "build/protos"),
  join(dirname(createRequire(client).resolve("google-gax")), "../protos"),
];

const root = new protobuf.Root();
const loaded = new Set();
const load = (file) => {
  if (loaded.has(file) || file.startsWith("google/api/")) return;
  loaded.add(file);
  const path = folders.map((folder) => join(folder, file)).find(existsSync);
  if (path === undefined) throw new Error(`Google's Pub/Sub client has no ${file}`);
  for (const imported of protobuf.parse(readFileSync(path, "utf8"), root).imports ?? []) load(imported);
};
for (const file of FILES) load(file);

/** Under these keys the members are names, not parts of a description. */
const NAMED = new Set(["nested", "fields", "methods", "values", "oneofs"]);
/** The options that change what is on the wire; all others say nothing that the door needs. */
const ON_THE_WIRE = new Set(["proto3_optional", "packed"]);

const slim = (value, areNames = false) => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const members = Object.entries(value).flatMap(([key, inner]) => {
    if (areNames) return [[key, slim(inner)]];
    if (key === "parsedOptions") return [];
    if (key !== "options") return [[key, slim(inner, NAMED.has(key))]];
    const kept = Object.entries(inner).filter(([option]) => ON_THE_WIRE.has(option));
    return kept.length === 0 ? [] : [[key, Object.fromEntries(kept)]];
  });
  return Object.fromEntries(members);
};

const { google } = root.toJSON().nested;
const wanted = Object.entries(google.nested).filter(([name]) => KEPT.includes(`google.${name}`));
const json = slim({ nested: { google: { nested: Object.fromEntries(wanted) } } });
const text = `// Made by scripts/proto-module.mjs from the definitions in Google's Pub/Sub client: run it again after an update of it.
// Copyright Google LLC, licensed under the Apache License, Version 2.0.
// biome-ignore-all format: made by a script
export const DEFINITIONS: object = ${JSON.stringify(json)};
`;

if (!isCheck) writeFileSync(target, text);
else if (readFileSync(target, "utf8") !== text) {
  console.error("doors/grpc/generated-definitions.ts is stale: run node scripts/proto-module.mjs");
  process.exitCode = 1;
}
