/**
 * The house rules that a machine can check, each a pure function from the source tree to a list of violations. tidy.test.ts
 * runs them.
 *
 * Invariants: a violation names file and line. Exceptions are listed here, with their reason, and nowhere else.
 */
import { layerOf, objection } from "./layers.ts";
import type { Place, Source } from "./source-tree.ts";

export type Rule = (sources: readonly Source[]) => string[];

const MAX_LINES = 400;

/** The only files that may use the machine's clock, timers or randomness, each with its reason. */
export const MAY_TELL_TIME: readonly (readonly [where: RegExp, reason: string])[] = [
  [/^packages\/server\/src\/real-world\.ts$/, "it is the injected world"],
  [/^packages\/server\/src\/compose\.ts$/, "it chooses the world"],
  [/^packages\/server\/src\/cli\//, "it runs outside of any server"],
  [/^packages\/client\/src\/(?!live\/)/, "it runs in the user's program"],
  [/^packages\/client\/src\/live\/browser-world\.ts$/, "it is the world that a live session is given"],
  [/^packages\/server\/src\/engine\/disk\/thread-priority\.ts$/, "only a thread of the real machine takes breaks"],
  [/^packages\/server\/src\/doors\/http\/http-door\.ts$/, "sockets have time limits that no rule depends on"],
  [/^packages\/server\/src\/doors\/http\/node-hang-up\.ts$/, "it leaves a client time to read why"],
  [/^packages\/server\/src\/doors\/http\/lane-line\.ts$/, "it leaves a client time to read why"],
  [/^packages\/server\/src\/doors\/http\/lane-response\.ts$/, "it dates responses"],
  [/^packages\/server\/src\/doors\/http\/node-response\.ts$/, "it leaves a client time to read why"],
];

/** The only files of portable layers that may use Node, each with its reason. */
export const MAY_USE_NODE: readonly (readonly [where: RegExp, reason: string])[] = [
  [/^packages\/server\/src\/doors\/http\/http-door\.ts$/, "it is the adapter to node:http"],
  [/^packages\/server\/src\/doors\/http\/door-request\.ts$/, "its connections have sockets of Node"],
  [/^packages\/server\/src\/doors\/http\/lane-line\.ts$/, "it is a connection that the door reads itself"],
  [/^packages\/server\/src\/doors\/http\/lane-parser\.ts$/, "it reads the bytes of a socket"],
  [/^packages\/server\/src\/doors\/http\/lane-request\.ts$/, "its body is of the bytes of a socket"],
  [/^packages\/server\/src\/doors\/http\/lane-response\.ts$/, "it has the texts of statuses"],
  [/^packages\/server\/src\/doors\/http\/lane-socket\.ts$/, "it is the socket that the door reads itself"],
  [/^packages\/server\/src\/doors\/http\/node-response\.ts$/, "it writes to a response of node:http"],
  [/^packages\/server\/src\/doors\/http\/response-headers\.ts$/, "it measures and joins bytes"],
  [/^packages\/server\/src\/doors\/http\/node-connection-cap\.ts$/, "it counts sockets and descriptors"],
  [/^packages\/server\/src\/doors\/http\/node-hang-up\.ts$/, "it writes to a bare socket"],
  [/^packages\/server\/src\/doors\/http\/node-line\.ts$/, "it is a connection of node:http"],
  [/^packages\/server\/src\/doors\/http\/chunks\.ts$/, "it joins the Buffers of bodies as sockets give them"],
  [/^packages\/server\/src\/doors\/http\/node-request\.ts$/, "it is a request of node:http"],
  [/^packages\/server\/src\/doors\/http\/node-compression\.ts$/, "it compresses with Node's threads"],
  [/^packages\/server\/src\/doors\/http\/node-mount\.ts$/, "it takes requests of another server of node:http"],
  [/^packages\/server\/src\/doors\/http\/node-sink\.ts$/, "it writes to a response of node:http"],
  [/^packages\/server\/src\/doors\/http\/websocket\.ts$/, "it takes over sockets of node:http"],
  [/^packages\/server\/src\/doors\/grpc\/grpc-(door|server|session|call)\.ts$/, "they are the adapter to node:http2"],
  [
    /^packages\/server\/src\/doors\/grpc\/(definitions|field-check|inflation|message-frames)\.ts$/,
    "they read and write the bytes of a stream of node:http2",
  ],
  [/^packages\/server\/src\/doors\/tls\/certificate\.ts$/, "it reads files and makes connections of node:tls"],
  [/^packages\/server\/src\/doors\/webhook\/node-webhook\.ts$/, "it resolves names and opens sockets itself"],
  [/^packages\/server\/src\/doors\/webhook\/node-ed25519\.ts$/, "it signs with node:crypto"],
];

const TIME_AND_CHANCE = new Set([
  "Date.now",
  "setTimeout",
  "setInterval",
  "setImmediate",
  "Math.random",
  "performance.now",
  "performance.timeOrigin",
  "process.hrtime",
  "process.hrtime.bigint",
  "randomUUID",
  "crypto.randomUUID",
  "crypto.getRandomValues",
]);
const NODE_GLOBALS = new Set(["Buffer", "process", "NodeJS", "require", "__dirname", "__filename", "setImmediate"]);
const TEST_ESCAPES = new Set(["skip", "only", "skipIf", "runIf", "todo", "fails"]);
const VAGUE = /(^|[-/])(utils?|helpers?|managers?)(?=[-./]|$)/;
const KEBAB = /^[a-z0-9]+(-[a-z0-9]+)*$/;

export const importsPointOneWay: Rule = (sources) =>
  inCode(sources).flatMap((source) => [
    ...(layerOf(source.path)
      ? []
      : [at(source, 1, "belongs to no layer; give its folder a place in test/tidy/layers.ts")]),
    ...source.imports.flatMap(({ name, line }) => {
      const says = objection(source, name);
      return says === undefined ? [] : [at(source, line, says)];
    }),
  ]);

export const timeAndChanceAreInjected: Rule = (sources) =>
  inCode(sources)
    .filter(({ path }) => !isListed(MAY_TELL_TIME, path))
    .flatMap((source) => {
      const used = source.uses.filter(({ name }) => TIME_AND_CHANCE.has(name.replace(/^globalThis\./, "")));
      const dates = source.bareNews.filter(({ name }) => name === "Date()");
      const timers = source.imports.filter(({ name }) => /^(node:)?timers(\/|$)/.test(name));
      return [...used, ...dates, ...timers].map(({ name, line }) =>
        at(source, line, `uses ${name} instead of the World`),
      );
    });

export const portableCodeKnowsNoNode: Rule = (sources) =>
  inCode(sources)
    .filter(({ path }) => layerOf(path)?.portable && !isListed(MAY_USE_NODE, path))
    .flatMap((source) => {
      const imported = source.imports.filter(({ name }) => name.startsWith("node:"));
      const used = source.uses.filter(({ name }) => NODE_GLOBALS.has(name.split(".")[0]!));
      return [...imported, ...used].map(({ name, line }) => at(source, line, `uses ${name}, which only Node has`));
    });

/** engine/other-nodes.ts explains what a shared store means, one function per idea. */
export const featuresNeverAskForTheEngine: Rule = (sources) =>
  inCode(sources)
    .filter(({ path }) => path.startsWith("packages/server/src/") && !path.startsWith("packages/server/src/engine/"))
    .flatMap((source) => {
      const asked = source.uses.filter(({ name }) => name.endsWith(".exclusive"));
      const taken = source.properties.filter(({ name }) => name === "exclusive");
      return [...asked, ...taken].map(({ line }) =>
        at(source, line, "asks whether its engine is exclusive; engine/other-nodes.ts says what follows from that"),
      );
    });

export const exceptionsNameWhatExists: Rule = (sources) =>
  [...MAY_TELL_TIME, ...MAY_USE_NODE]
    .filter(([where]) => where.source.endsWith("$") && !sources.some(({ path }) => where.test(path)))
    .map(([where]) => `test/tidy/rules.ts: ${where.source} is excepted, but there is no such file`);

export const filesAreShort: Rule = (sources) =>
  sources.flatMap((source) => {
    const lines = source.text.trimEnd().split("\n").length;
    return lines > MAX_LINES ? [at(source, lines, `has ${lines} lines; ${MAX_LINES} is the limit`)] : [];
  });

/** A test file is explained by the names of its tests. */
export const filesOpenWithAComment: Rule = (sources) =>
  sources
    .filter(({ path }) => !/\.(test|config)\.ts$/.test(path))
    .filter(({ text }) => !/^(#!.*\n)?(\/\*\*|\/\/)/.test(text))
    .map((source) => at(source, 1, "does not open by saying what it owns"));

export const namesAreKebabCase: Rule = (sources) =>
  sources.flatMap((source) => {
    const segments = source.path.replace(/(\.(test|config))?\.(ts|js|mjs)$/, "").split("/");
    return segments.every((segment) => KEBAB.test(segment)) ? [] : [at(source, 1, "is not named in kebab-case")];
  });

export const namesSaySomething: Rule = (sources) =>
  sources.filter(({ path }) => VAGUE.test(path)).map((source) => at(source, 1, "has a name that says nothing"));

export const noTestEscapes: Rule = (sources) =>
  sources
    .filter(({ path, isTest }) => isTest || path.startsWith("vitest.config"))
    .flatMap((source) => {
      const skipped = source.uses.filter(
        ({ name }) =>
          /^(it|test|describe|suite|bench|ctx|context)\./.test(name) &&
          name.split(".").some((part) => TEST_ESCAPES.has(part)),
      );
      const retried = source.properties.filter(({ name }) => name === "retry" || name === "repeats");
      return [...skipped, ...retried].map(({ name, line }) =>
        at(source, line, `uses ${name}: a test passes or it does not`),
      );
    });

export const relativeImportsNameTheirFile: Rule = (sources) =>
  sources
    .filter(({ path }) => path.endsWith(".ts"))
    .flatMap((source) =>
      source.imports
        .filter(({ name }) => name.startsWith(".") && !name.endsWith(".ts"))
        .map(({ name, line }) => at(source, line, `imports ${name} without .ts`)),
    );

/** A lock file with one registry's addresses cannot be installed from another registry. */
export function lockNamesNoRegistry({ path, text }: Pick<Source, "path" | "text">): string[] {
  const lines = text.split("\n").map((content, i): Place => ({ name: content, line: i + 1 }));
  return lines
    .filter(({ name }) => /"resolved": "http/.test(name))
    .map(({ line }) => `${path}:${line}: names a registry's address`);
}

/** Sources of the packages, without their tests. */
function inCode(sources: readonly Source[]): Source[] {
  return sources.filter(({ path, isTest }) => /^packages\/[a-z-]+\/src\//.test(path) && !isTest);
}

function isListed(list: readonly (readonly [RegExp, string])[], path: string): boolean {
  return list.some(([where]) => where.test(path));
}

function at(source: Source, line: number, says: string): string {
  return `${source.path}:${line}: ${says}`;
}
