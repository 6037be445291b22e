// Writes doors/grpc/generated-definitions.ts from Google's .proto files (Apache-2.0), which the package google-proto-files holds:
//
//   npm install --no-save google-proto-files@5.0.3 && node scripts/proto-module.mjs
//
// The definitions are a checked-in module because that package is 89 MB, and the server needs four files of it and their imports.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import protobuf from "protobufjs";

const FILES = [
  "google/pubsub/v1/pubsub.proto",
  "google/iam/v1/iam_policy.proto",
  "google/rpc/status.proto",
  "google/rpc/error_details.proto",
];

const folder = dirname(createRequire(import.meta.url).resolve("google-proto-files/package.json"));
const target = fileURLToPath(new URL("../packages/server/src/doors/grpc/generated-definitions.ts", import.meta.url));

const root = new protobuf.Root();
const loaded = new Set();
function load(file) {
  if (loaded.has(file)) return;
  loaded.add(file);
  const { imports = [] } = protobuf.parse(readFileSync(join(folder, file), "utf8"), root);
  for (const imported of imports) load(imported);
}
for (const file of FILES) load(file);
root.resolveAll();

/** Annotations for Google's own HTTP gateway and documentation say nothing about the encoding. */
const encodingOnly = (key, value) => (key === "parsedOptions" || key.startsWith("(google.") ? undefined : value);

const text = `// Made by scripts/proto-module.mjs from Google's .proto files (Apache-2.0, Google LLC): run it again, do not edit.
// biome-ignore-all format: made by a script
import type { INamespace } from "protobufjs";

export const DEFINITIONS: INamespace = JSON.parse(${JSON.stringify(JSON.stringify(root.toJSON(), encodingOnly))});
`;

writeFileSync(target, text);
