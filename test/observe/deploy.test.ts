/** The files of deploy/ parse, name only flags, files and metrics that exist, and keep their promises. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { DEFAULTS } from "@sluice/server";
import { describe, expect, it, onTestFinished } from "vitest";
import { parse } from "yaml";
import { entryOfFlag, entryOfVariable } from "../../packages/server/src/config/catalog.ts";
import { RedisMeter } from "../../packages/server/src/engine/redis/meter.ts";
import { prometheusText } from "../../packages/server/src/observe/prometheus.ts";
import { createdStream, eventually, serverForTest } from "../e2e/server.ts";
import { text as field, RawClient } from "../grpc/raw-client.ts";
import { Scrape } from "./prometheus-text.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const text = (path: string) => readFileSync(join(ROOT, path), "utf8");

const flagsOf = (args: readonly string[]) =>
  args.filter((arg) => arg.startsWith("--")).map((arg) => arg.split("=")[0]!);

interface Service {
  readonly build?: { readonly context: string; readonly dockerfile: string };
  readonly command: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly networks?: Readonly<Record<string, { readonly ipv4_address: string }>>;
  readonly volumes?: readonly string[];
  readonly stop_grace_period?: string;
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

const compose = (path: string) => parse(text(path), { merge: true }) as Compose;

describe("the compose files", () => {
  for (const path of ["deploy/compose.yaml", "deploy/compose.redis-cluster.yaml"]) {
    it(`${path} starts servers with existing flags and a secret, and leaves them time to drain`, () => {
      const { services, volumes } = compose(path);
      const servers = Object.values(services).filter(({ build }) => build !== undefined);
      expect(servers.length).toBeGreaterThan(0);
      for (const server of servers) {
        expect(existsSync(join(ROOT, "deploy", server.build!.context, server.build!.dockerfile))).toBe(true);
        expect(server.command[0]).toBe("serve");
        for (const flag of flagsOf(server.command)) expect(entryOfFlag(flag), flag).toBeDefined();
        for (const name of Object.keys(server.environment!)) expect(entryOfVariable(name), name).toBeDefined();
        expect(server.environment!.SLUICE_SECRET_default).toMatch(/^\$\{SLUICE_SECRET:\?/);
        expect(Number.parseInt(server.stop_grace_period!, 10) * 1_000).toBeGreaterThan(DEFAULTS.drainMs);
      }
      for (const { volumes: used = [] } of Object.values(services)) {
        for (const volume of used) expect(Object.keys(volumes)).toContain(volume.split(":")[0]);
      }
      for (const { depends_on = {} } of Object.values(services)) {
        for (const name of Object.keys(depends_on)) expect(Object.keys(services)).toContain(name);
      }
    });
  }

  it("give the cluster six Redis nodes, and pass their addresses to its creation and to the servers", () => {
    const { services } = compose("deploy/compose.redis-cluster.yaml");
    const nodes = Object.entries(services).filter(([name]) => /^redis-\d$/.test(name));
    const addresses = nodes.map(([, { networks }]) => networks!.cluster!.ipv4_address);
    expect(new Set(addresses).size).toBe(6);
    const create = services["redis-create"]!.command.join(" ");
    for (const address of addresses) expect(create).toContain(`${address}:6379`);
    const command = services["sluice-1"]!.command;
    const seeds = command[command.indexOf("--redis") + 1]!.split(",").map((url) => new URL(url).hostname);
    expect(seeds.length).toBe(3);
    for (const seed of seeds) expect(addresses).toContain(seed);
  });
});

describe("the image", () => {
  const dockerfile = text("deploy/Dockerfile").replaceAll("\\\n", " ");
  const lines = dockerfile.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  const last = (instruction: string) => lines.filter((line) => line.startsWith(`${instruction} `)).at(-1)!;

  it("runs as an ordinary user, gets signals itself, and serves with existing flags", () => {
    expect(last("USER")).toBe("USER 1000:1000");
    const entry = JSON.parse(last("ENTRYPOINT").slice("ENTRYPOINT ".length)) as string[];
    const command = JSON.parse(last("CMD").slice("CMD ".length)) as string[];
    expect(entry[0]).toBe("node");
    expect(existsSync(join(ROOT, entry[1]!.replace("/app/", "")))).toBe(true);
    expect(command[0]).toBe("serve");
    for (const flag of flagsOf(command)) expect(entryOfFlag(flag), flag).toBeDefined();
    expect(last("VOLUME")).toBe("VOLUME /data");
    expect(command).toContain("/data");
  });

  it("is built from files that exist and reach the build", () => {
    const admitted = text("deploy/Dockerfile.dockerignore")
      .split("\n")
      .flatMap((line) => (line.startsWith("!") ? [line.slice(1)] : []));
    const copies = lines.filter((line) => line.startsWith("COPY ") && !line.includes("--from="));
    expect(copies.length).toBeGreaterThan(5);
    for (const source of copies.flatMap((line) => line.split(" ").slice(1, -1))) {
      expect(existsSync(join(ROOT, source)), source).toBe(true);
      expect(admitted, source).toContain(source.split("/")[0]);
    }
  });

  it("has a health check that agrees with /ready", async () => {
    const probe = JSON.parse(/^HEALTHCHECK .* CMD (\[.*\])$/m.exec(dockerfile)![1]!) as string[];
    const { server, port } = await serverForTest("memory");
    const check = async (at: number, more: Readonly<Record<string, string>> = {}) => {
      const { spawn } = await import("node:child_process");
      const env = { ...process.env, SLUICE_PORT: String(at), ...more };
      const child = spawn(process.execPath, probe.slice(1), { env });
      return new Promise((resolve) => child.on("exit", resolve));
    };
    expect(await check(port)).toBe(0);
    const tls = {
      cert: join(ROOT, "test/support/tls/first-cert.pem"),
      key: join(ROOT, "test/support/tls/first-key.pem"),
    };
    const secured = await serverForTest("memory", { tls });
    expect(await check(secured.port, { SLUICE_TLS_CERT: tls.cert })).toBe(0);
    await server.close();
    expect(await check(port)).toBe(1);
  });
});

describe("the systemd unit", () => {
  const unit = text("deploy/sluice.service");
  const value = (name: string) => new RegExp(`^${name}=(.*)$`, "m").exec(unit)?.[1];

  it("serves with existing flags, keeps its data, and leaves time to drain", () => {
    const command = value("ExecStart")!.split(" ");
    expect(existsSync(join(ROOT, command[1]!.replace("/opt/sluice/", "")))).toBe(true);
    for (const flag of flagsOf(command)) expect(entryOfFlag(flag), flag).toBeDefined();
    expect(command).toContain(`/var/lib/${value("StateDirectory")}`);
    expect(Number(value("TimeoutStopSec")) * 1_000).toBeGreaterThan(DEFAULTS.drainMs);
    expect(Number(value("LimitNOFILE"))).toBeGreaterThan(DEFAULTS.tail.readers);
    for (const [name, wanted] of [
      ["NoNewPrivileges", "yes"],
      ["ProtectSystem", "strict"],
      ["Restart", "always"],
      ["DynamicUser", "yes"],
    ]) {
      expect(value(name!), name).toBe(wanted);
    }
  });

  it("is accepted by systemd, where it is installed", () => {
    const dir = mkdtempSync(join(tmpdir(), "sluice-unit-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    const file = join(dir, "sluice.service");
    writeFileSync(file, unit.replace("/usr/bin/node", process.execPath));
    const { error, status, stderr } = spawnSync("systemd-analyze", ["verify", file], { encoding: "utf8" });
    if (error === undefined)
      expect({ status, said: stderr.match(/sluice\.service:.*/g) }).toEqual({ status: 0, said: null });
  });
});

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly type: string;
  readonly gridPos: { readonly h: number; readonly w: number; readonly x: number; readonly y: number };
  readonly targets?: readonly { readonly refId: string; readonly expr: string }[];
}

describe("the dashboard, the alerts and the manual", () => {
  const dashboard = JSON.parse(text("deploy/grafana/sluice.json")) as { readonly panels: readonly Panel[] };
  const alerts = parse(text("deploy/prometheus/alerts.yml")) as {
    readonly groups: readonly { readonly rules: readonly { readonly alert: string; readonly expr: string }[] }[];
  };

  async function scrape(): Promise<Scrape> {
    const fixture = await serverForTest("disk", { grpcPort: 0 });
    await RawClient.to(fixture.server.grpcPort!).call("Publisher/ListTopics", field(1, "projects/p"));
    await createdStream(fixture, "a", "text/plain");
    let found: Scrape | undefined;
    await eventually(async () => {
      // This server has no Redis, so the metrics of that engine come from its meter.
      const ofRedis = await prometheusText(new RedisMeter().metrics(), () => {});
      found = new Scrape((await fixture.server.metrics()) + ofRedis);
      found.value("sluice_streams");
    });
    return found!;
  }

  it("use only metrics and labels that the server has", async () => {
    const found = await scrape();
    const queries = [
      ...dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
      ...alerts.groups.flatMap(({ rules }) => rules.map(({ expr }) => expr)),
    ];
    expect(queries.length).toBeGreaterThan(40);
    for (const query of queries) {
      const uses = [...query.matchAll(/\b(sluice_[a-z0-9_]+)(?:\{([^}]*)\})?/g)];
      if (!query.includes("up{")) expect(uses.length, query).toBeGreaterThan(0);
      for (const [, name, selector = ""] of uses) {
        const labels = new Set(found.samples(name!).flatMap((sample) => Object.keys(sample.labels)));
        for (const [, label] of selector.matchAll(/([a-z_]+)(?:=|!)/g)) {
          expect(["job", "instance", ...labels], query).toContain(label);
        }
        const grouped = /\bby \(([^)]*)\)/.exec(query)?.[1]?.split(", ") ?? [];
        for (const label of grouped) expect(["job", "instance", ...labels], query).toContain(label);
      }
      expect(query.split("(").length, query).toBe(query.split(")").length);
    }
  });

  it("name only metrics that the server has, and every metric explains itself where it is served", async () => {
    const { families } = await scrape();
    const named = [...text("docs/operations.md").matchAll(/^\| `(sluice_[a-z0-9_]+)`/gm)].map(([, name]) => name!);
    expect(named.length).toBeGreaterThan(40);
    for (const name of named) expect([...families.keys()]).toContain(name);
    for (const [name, { help }] of families) expect(help.length, name).toBeGreaterThan(10);
  });

  it("have a row of panels and an alert for sessions, channels and Redis", () => {
    const rowTitles = dashboard.panels.filter(({ type }) => type === "row").map(({ title }) => title);
    expect(rowTitles).toEqual(expect.arrayContaining(["Sessions", "Channels", "Redis"]));
    const alerted = alerts.groups.flatMap(({ rules }) => rules.map(({ expr }) => expr)).join();
    for (const part of ["sluice_fanout_", "sluice_channel_", "sluice_redis_"]) expect(alerted).toContain(part);
  });

  it("have panels that Grafana can place", () => {
    const { panels } = dashboard;
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    for (const { title, targets = [] } of panels) {
      expect(new Set(targets.map(({ refId }) => refId)).size, title).toBe(targets.length);
    }
    for (const [i, { gridPos: a, title }] of panels.entries()) {
      expect(a.x + a.w, title).toBeLessThanOrEqual(24);
      for (const { gridPos: b } of panels.slice(i + 1)) {
        const isApart = a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y;
        expect(isApart, title).toBe(true);
      }
    }
  });

  it("come with a scrape configuration for the served address", () => {
    const { scrape_configs: scrapes } = parse(text("deploy/prometheus/prometheus.yml")) as {
      readonly scrape_configs: readonly { readonly job_name: string; readonly metrics_path: string }[];
    };
    expect(scrapes.map(({ job_name, metrics_path }) => [job_name, metrics_path])).toEqual([["sluice", "/metrics"]]);
  });
});
