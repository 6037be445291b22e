import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { allEntries } from "../../packages/server/src/config/catalog.ts";
import { complete } from "../../packages/server/src/config/cross-checks.ts";
import { parseConfig } from "../../packages/server/src/config/file.ts";
import { type FlagGiven, type Loaded, loadSettings, settingsFrom } from "../../packages/server/src/config/load.ts";
import { ConfigError } from "../../packages/server/src/config/problem.ts";
import { effectiveSettings, referenceText } from "../../packages/server/src/config/reference.ts";
import { limitsOf, schema } from "../../packages/server/src/config/schema.ts";
import { dirForTest } from "../support/sluice-process.ts";

const SECRET = "x".repeat(32);
const DEFAULTS = complete(schema.parse({}));

interface Given {
  readonly file?: string;
  readonly fileName?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly flags?: readonly string[];
}

/** Takes flags as `--port=80`, or `--memory`. */
function load({ file, fileName = "sluice.yaml", env = {}, flags = [] }: Given): Loaded {
  let configFile: string | undefined;
  if (file !== undefined) {
    configFile = join(dirForTest(), fileName);
    writeFileSync(configFile, file);
  }
  const given = flags.map((text): FlagGiven => {
    const at = text.indexOf("=");
    return at < 0 ? { flag: text } : { flag: text.slice(0, at), text: text.slice(at + 1) };
  });
  return loadSettings({ flags: given, env, configFile });
}

function problems(given: Given): readonly string[] {
  try {
    load(given);
  } catch (fault) {
    if (fault instanceof ConfigError) return fault.problems;
    throw fault;
  }
  throw new Error("it was accepted");
}

describe("a setting", () => {
  it("is at its default when no source gives it", () => {
    expect(load({}).settings).toEqual(DEFAULTS);
    expect(load({}).origins.size).toBe(0);
  });

  it("comes from the flag before the environment, and from the environment before the file", () => {
    const file = "port: 1\ndrainMs: 11\nlongPollMs: 21\n";
    const env = { SLUICE_PORT: "2", SLUICE_DRAIN_MS: "12" };
    const { settings, origins } = load({ file, env, flags: ["--port=3"] });
    expect([settings.port, settings.drainMs, settings.longPollMs]).toEqual([3, 12, 21]);
    expect([..."port drainMs longPollMs".split(" ")].map((key) => origins.get(key)?.kind)).toEqual([
      "flag",
      "environment",
      "file",
    ]);
  });

  it("can be in a JSON file as well as in a YAML file", () => {
    const json = JSON.stringify({ port: 7, stream: { bodyBytes: 5 }, projects: { shop: { secrets: [SECRET] } } });
    const { settings } = load({ file: json, fileName: "sluice.json" });
    expect([settings.port, settings.stream.bodyBytes]).toEqual([7, 5]);
    expect(settings.projects).toEqual({ shop: { secrets: [SECRET] } });
    expect(load({ file: json }).settings).toEqual(settings);
  });

  it("can be given by its variable and by --set, whatever its type", () => {
    for (const entry of allEntries().filter(({ key }) => !key.startsWith("projects."))) {
      const text = sampleOf(entry.initial, entry.key);
      const engine = ["data", "memory", "redis.urls"].includes(entry.key);
      // Either is refused without the other.
      const env: Record<string, string> = entry.key.startsWith("tls.")
        ? { SLUICE_TLS_CERT: "a.pem", SLUICE_TLS_KEY: "b.pem" }
        : {};
      const byVariable = load({ env: { ...env, [entry.env]: text } }).settings;
      const bySet = load({ env, flags: [`--set=${entry.key}=${text}`] }).settings;
      expect(byVariable, entry.key).toEqual(bySet);
      if (!engine) expect(byVariable, entry.key).not.toEqual(DEFAULTS);
    }
  });

  it("can be the secrets or the key set of a project, from the environment too", () => {
    const older = "y".repeat(40);
    const env = { SLUICE_SECRET_shop: `${SECRET} ${older}`, "SLUICE_JWKS_my-app": "https://id.example.com/keys" };
    expect(load({ env }).settings.projects).toEqual({
      shop: { secrets: [SECRET, older] },
      "my-app": { jwks: "https://id.example.com/keys" },
    });
    const inline = { keys: [{ kty: "OKP", crv: "Ed25519", x: "abc" }] };
    const text = JSON.stringify(inline);
    const more = { SLUICE_ISSUER_a: "https://id.example.com", SLUICE_AUDIENCE_a: "sluice" };
    expect(load({ env: { SLUICE_JWKS_a: text, ...more } }).settings.projects).toEqual({
      a: { jwks: inline, issuer: "https://id.example.com", audience: "sluice" },
    });
    const signing = JSON.stringify({ keys: [{ ...inline.keys[0], d: "hunter2" }] });
    expect(problems({ env: { SLUICE_JWKS_a: signing } })).toHaveLength(1);
    expect(problems({ env: { SLUICE_JWKS_a: signing } })[0]).not.toContain("hunter2");
  });
});

/** Returns a valid value other than the default. */
function sampleOf(initial: unknown, key: string): string {
  if (typeof initial === "boolean") return String(!initial);
  if (typeof initial === "number") return String(key === "wake.leaseMs" ? initial + 1 : nearby(key, initial));
  const texts: Record<string, string> = {
    grpcPort: "8085",
    publicUrl: "https://a.example",
    "redis.urls": "redis://a:1,redis://b:2",
    "cors.origins": "https://a.example,https://b.example",
    "log.level": "warn",
    "log.format": "json",
    "http.hosts": "a.example,*.b.example",
    "webhook.allowLoopback": "false",
    projectSharePercent: "10",
  };
  return texts[key] ?? "elsewhere";
}

/** Moves limits that depend on each other in the direction that keeps them in order. */
function nearby(key: string, initial: number): number {
  const mustShrink = /^wake\.(minLeaseMs|retryMs|recheckMs)$|^webhook\.timeoutMs$|^list\.defaultStreams$/.test(key);
  return mustShrink ? initial - 1 : initial + 1;
}

describe("an unknown key", () => {
  it("in the file is refused with its path, the file and the closest known key", () => {
    const [problem, ...more] = problems({ file: "stream:\n  bodyByte: 5\n" });
    expect(more).toEqual([]);
    expect(problem).toMatch(/^stream\.bodyByte \(from the file .*sluice\.yaml\), which is 5, is not a setting; /);
    expect(problem).toContain("did you mean stream.bodyBytes?");
  });

  it("in the environment is refused with the variable", () => {
    expect(problems({ env: { SLUICE_PROT: "80" } })).toEqual([
      'SLUICE_PROT (from the variable SLUICE_PROT), which is "80", is not a setting; did you mean SLUICE_PORT?',
    ]);
  });

  it("that was renamed is refused with its new name", () => {
    expect(problems({ env: { SLUICE_LIVE_SSE_MS: "1" } })[0]).toContain("did you mean SLUICE_TAIL_SSE_MS?");
    expect(problems({ flags: ["--set=live.readers=1"] })[0]).toContain("did you mean tail.readers?");
    expect(problems({ file: "live:\n  readers: 5\n" })[0]).toMatch(
      /^live\.readers \(from .*did you mean tail\.readers\?$/,
    );
  });

  it("of --set is refused, also when it names a group or has no value", () => {
    expect(problems({ flags: ["--set=strem.bodyBytes=1"] })[0]).toContain("did you mean stream.bodyBytes?");
    expect(problems({ flags: ["--set=stream=1"] })[0]).toContain("group");
    expect(problems({ flags: ["--set=port"] })[0]).toContain("KEY=VALUE");
  });

  it("is not reported for the variables of other commands and other programs", () => {
    expect(() => load({ env: { SLUICE_URL: "x", SLUICE_TOKEN: "y", PORT: "z" } })).not.toThrow();
  });

  it("with a dot in a name, or the name of a prototype property, is refused too", () => {
    expect(problems({ file: '"stream.bodyBytes": 5\n' })[0]).toContain("is not a setting");
    expect(problems({ file: '{"__proto__": {"port": 1}, "constructor": 1}', fileName: "a.json" })).toHaveLength(2);
    expect(problems({ file: `projects: { __proto__: { secrets: [${SECRET}] } }` })).toHaveLength(1);
  });
});

describe("a malformed value", () => {
  it.each([
    "x",
    "",
    " 1",
    "1 ",
    "1e3",
    "0x10",
    "1.5",
    "-1",
    "+1",
    "1_000",
    "10s",
    "NaN",
    "Infinity",
    "00",
    "9007199254740993",
  ])("is never parsed as a number: %j", (text) => {
    for (const key of ["drainMs", "sessionTtlSeconds", "stream.bodyBytes"]) {
      const entry = allEntries().find((one) => one.key === key)!;
      for (const given of [{ env: { [entry.env]: text } }, { flags: [`--set=${key}=${text}`] }]) {
        expect(problems(given)).toHaveLength(1);
        expect(problems(given)[0]).toContain(`is ${JSON.stringify(text)}; it must be a whole number`);
      }
    }
  });

  it.each(['"10"', "true", "1.5", ".nan", ".inf", "[1]", "{}", "null", "ten", "-1"])(
    "in a file is refused: %s",
    (text) => {
      const [problem] = problems({ file: `drainMs: ${text}\n` });
      expect(problem).toMatch(
        /^drainMs \(from the file .*\) is .*; it must be a whole number of milliseconds from 0 to \d+$/,
      );
    },
  );

  it("is reported from every source at once, with every other problem", () => {
    const found = problems({
      file: "port: 70000\nlog: { level: loud }\nnothing: 1\n",
      env: { SLUICE_PORT: "http", SLUICE_NOTHING: "1" },
      flags: ["--port=80", "--long-poll-ms=soon"],
    });
    expect(found).toHaveLength(6);
    expect(found.join("\n")).toMatch(/log\.level .* must be one of fatal, error, warn/);
  });

  it("never shows a secret, not even under a wrong name", () => {
    const env = {
      SLUICE_SECRET_shop: "hunter2",
      SLUICE_SECRTE_shop: "hunter2hunter2",
      SLUICE_REDIS: "redis://:hunter2@host:1,redis://:hunt,er2@host:1,nonsense",
    };
    const file = `projects: { shop: { secret: hunter2, secrets: hunter2, jwks: "ftp://me:hunter2@x" } }`;
    const text = problems({ env, file }).join("\n");
    expect(text).not.toMatch(/hunt|er2/);
    expect(text.split("\n")).toHaveLength(6);
  });
});

describe("a file", () => {
  it("that is missing, damaged or not an object is refused with its name", () => {
    expect(() => loadSettings({ flags: [], env: {}, configFile: "/no/such.yaml" })).toThrow(/such\.yaml.*no such file/);
    expect(() => loadSettings({ flags: [], env: { SLUICE_CONFIG: "/no/such.yaml" } })).toThrow(/such\.yaml/);
    expect(problems({ file: "a: [1" })[0]).toMatch(/a bracket is not closed, at line 1, column 6$/);
    expect(problems({ file: "port: 1\nport: 2\n" })[0]).toMatch(/a key is given twice, at line 2, column 1$/);
    expect(problems({ file: "{'port': 1}", fileName: "a.json" })[0]).toContain("a.json cannot be used");
    expect(problems({ file: "just a text" })[0]).toContain("must hold names with values");
    expect(problems({ file: "stream: 5" })[0]).toContain("stream (from the file");
    expect(load({ file: "" }).settings.port).toBe(4437);
  });

  it.each([
    ["port: 1\n---\nport: 2\n", /several documents.*, at line 2, column 1$/],
    ["port: 1\nhost: 'abc\ndata: x\nmemory: y\n", /a quote.*, at line 2, column 7$/],
    ["port: 1\n  host: x\n", /indentation.*, at line 2, column \d+$/],
    ["stream:\n\tpageBytes: 1\n", /a tab.*, at line 2, column 1$/],
    ["port: 1\nhost: @s\n", /must be in quotes, at line 2, column 7$/],
    ["port: 1\nhost: *unknown\n", /an alias/],
  ])("of malformed YAML is refused with the reason, the line and the column: %j", (file, says) => {
    expect(problems({ file })).toEqual([expect.stringMatching(says)]);
  });

  it.each([
    ['{"port": 1,\n "port": 2}', /a key is given twice, at line 2, column 2$/],
    ['{"stream": {"pageBytes": 1, "page\\u0042ytes": 2}}', /a key is given twice, at line 1, column 29$/],
    ['{\n"port": 1\n"host": "s3cr3t"}', /a comma is missing, at line 2, column 9$/],
    ['{"host": "s3cr3t"\n "port": 1}', /a comma is missing, at line 2, column 2$/],
    ['{"port": 1 "host": "s3cr3t"}', /a comma is missing, at line 1, column 10$/],
    ["{'port': 1}", /not in double quotes.*, at line 1, column 2$/],
    ["{port: 1}", /not in double quotes.*, at line 1, column 2$/],
    ['{"memory": tru}', /not in double quotes.*, at line 1, column 12$/],
    ['{"port": 01}', /not in double quotes.*, at line 1, column 10$/],
    ['{"a": [1 2]}', /a comma is missing, at line 1, column 8$/],
    ['{"host": "s3cr3t}\n', /a quote.* is missing, at line 1, column 10$/],
    ['{"host": "a\\qs3cr3t"}', /an escape.*, at line 1, column 12$/],
    ['{"port"\n 1}', /a colon.* is missing, at line 2, column 2$/],
    ['{"port": }', /a value.* is missing, at line 1, column \d+$/],
    ['{"port": 1', /a bracket.* is missing, at line 1, column 11$/],
    ['{"port": 1}\n{}', /something stands where it cannot, at line 2, column 1$/],
  ])("of malformed JSON is refused with the reason, the line and the column, unquoted: %j", (file, says) => {
    const told = problems({ file, fileName: "a.json" });
    expect(told).toEqual([expect.stringMatching(says)]);
    expect(told[0]).not.toContain("s3cr3t");
  });

  it.each([
    ["brackets", "[".repeat(100_000), 1],
    ["closed brackets", `${"[".repeat(100_000)}${"]".repeat(100_000)}`, 1],
    ["braces", `port: 1\nprojects: ${"{a: ".repeat(100_000)}`, 2],
    ["dashes on one line", "- ".repeat(100_000), 1],
    ["explicit keys", "? ".repeat(100_000), 1],
    ["indented names", Array.from({ length: 60 }, (_, i) => `${" ".repeat(i)}a:`).join("\n"), 50],
  ])("with too many levels of %s is refused before it is read, with the place", (_name, file, line) => {
    const why = "it is nested more than 50 levels deep";
    expect(problems({ file })).toEqual([
      expect.stringMatching(`cannot be used: ${why}, at line ${line}, column \\d+$`),
    ]);
  });

  it("of JSON is parsed as JSON.parse does, in any layout", () => {
    const layout = fc.record({ indent: fc.constantFrom(0, 1, 4, "\t"), lineEnd: fc.constantFrom("\n", "\r\n") });
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: "binary" }), layout, (value, { indent, lineEnd }) => {
        const text = JSON.stringify(value, undefined, indent).replaceAll("\n", lineEnd);
        expect(parseConfig("a.json", text)).toEqual(JSON.parse(text));
      }),
      { numRuns: 500 },
    );
  });
});

describe("the place of the data", () => {
  it("is chosen by the source with the highest precedence that names one", () => {
    const file = "data: /from/file\n";
    expect(load({ file, env: { SLUICE_MEMORY: "true" } }).settings).toMatchObject({ memory: true });
    const over = load({ env: { SLUICE_MEMORY: "true" }, flags: ["--data=/from/flag"] }).settings;
    expect(over).toMatchObject({ memory: false, data: "/from/flag" });
    const redis = load({ file, flags: ["--redis=redis://a:1"] }).settings;
    expect(redis).toMatchObject({ memory: false, redis: { urls: ["redis://a:1"], waitReplicas: 0 } });
  });

  it("is refused when one source names two places", () => {
    expect(problems({ flags: ["--memory", "--data=x"] })).toEqual([
      "--memory and --data exclude each other; give one of them",
    ]);
    expect(problems({ flags: ["--redis=redis://a:1", "--data=x"] })).toHaveLength(1);
    expect(problems({ file: "memory: true\ndata: x\n" })).toHaveLength(1);
  });
});

describe("settings that depend on each other", () => {
  it("are refused together when they contradict each other", () => {
    expect(problems({ flags: ["--set=internal.wake.minLeaseMs=50000"] })[0]).toContain("at most wake.leaseMs (30000)");
    expect(problems({ flags: ["--set=webhook.timeoutMs=30000"] })[0]).toContain("internal.wake.lostAttemptMs");
    expect(problems({ flags: ["--set=stream.bodyBytes=70000000"] })[0]).toContain("half of http.memoryBytes");
    expect(problems({ flags: ["--set=cors.origins=*", "--set=cors.credentials=true"] })[0]).toContain("cors.origins");
  });
});

describe("an internal setting", () => {
  it("is checked like any other, from every source, and takes effect", () => {
    const bySet = load({ flags: ["--set=internal.fanout.graceMs=7"] });
    const byEnv = load({ env: { SLUICE_INTERNAL_FANOUT_GRACE_MS: "7" } });
    const byFile = load({ file: "internal:\n  fanout:\n    graceMs: 7\n" });
    for (const { settings } of [bySet, byEnv, byFile]) expect(limitsOf(settings).fanout.graceMs).toBe(7);
    expect(problems({ flags: ["--set=internal.fanout.graceMs=soon"] })[0]).toContain("a whole number of milliseconds");
    expect(problems({ flags: ["--set=internal.fanout.grace=1"] })[0]).toContain("internal.fanout.grace");
    expect(problems({ flags: ["--set=fanout.graceMs=7"] })[0]).toContain("fanout.graceMs");
  });

  it("is absent from the reference, and shown among the effective settings only when it is given", () => {
    expect(referenceText()).not.toContain("internal.");
    const shown = (given: Given) => effectiveSettings(load(given)).filter(({ key }) => key.startsWith("internal."));
    expect(shown({})).toEqual([]);
    expect(shown({ env: { SLUICE_INTERNAL_SWEEP_EVERY_MS: "9" } })).toMatchObject([
      { key: "internal.sweep.everyMs", value: "9" },
    ]);
  });
});

it("an operator has about sixty settings to know", () => {
  expect(allEntries().length).toBeLessThanOrEqual(95);
});

it("the settings of a server are valid options of another one, because every default is within its own range", () => {
  const { settings } = load({});
  expect(settingsFrom(settings)).toEqual(settings);
});
