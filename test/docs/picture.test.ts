/** Records the session that the README shows. `SLUICE_UPDATE=1 npx vitest run test/docs/picture` draws it anew. */
import { readFileSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { dirForTest, type ServingProcess, serveInProcess, sluice } from "../support/sluice-process.ts";
import { draw, type Step } from "./picture.ts";

const FILE = new URL("../../docs/picture.svg", import.meta.url);
const INBOX = "5f0c1d8e-8a5e-4c53-9d0e-2f6a7c1b9e44";

async function output(args: readonly string[], server: ServingProcess): Promise<string[]> {
  const { code, stdout, stderr } = await sluice(args, { env: { SLUICE_URL: server.url } });
  expect(code, stderr).toBe(0);
  return stdout.trimEnd().split("\n");
}

async function read(server: ServingProcess): Promise<string[]> {
  const answer = await fetch(`${server.url}/v1/stream/orders/7?offset=-1`);
  return [await answer.text()];
}

async function record(): Promise<Step[]> {
  const data = dirForTest();
  const server = await serveInProcess(["--data", data]);
  await output(["stream", "create", "orders/7", "--type", "application/json"], server);
  await output(["session", "subscribe", "orders/7", "--session", INBOX], server);
  const [, ...fanout] = (await output(["publish", "orders/7", '{"item":"tea"}', "--json"], server))[0]!.split(
    /,(?="mode")/,
  );
  const curl = "curl 127.0.0.1:4437/v1/stream/orders/7?offset=-1";
  const steps: Step[] = [
    {
      remark: "Write an order once. It is on disk when the command returns.",
      command: `sluice publish orders/7 '{"item":"tea"}' --json`,
      output: [`{…,${fanout.join(",")}`],
    },
    { remark: "Every client can read it by URL, from any offset.", command: curl, output: await read(server) },
    {
      remark: "It is in the inbox of each user who follows it, online or not.",
      command: "sluice session tail $INBOX",
      output: await output(["session", "tail", INBOX, "--limit", "1", "--json"], server),
    },
    {
      remark: "One of many workers processes it, and acknowledges.",
      command: "sluice group consume billing 'orders/#' --from earliest",
      output: await output(["group", "consume", "billing", "orders/#", "--from", "earliest", "--limit", "1"], server),
    },
  ];
  server.child.kill("SIGKILL");
  await server.ended;
  const next = await serveInProcess(["--data", data]);
  steps.push({
    remark: "Kill the server as hard as you like. Nothing that was acknowledged is gone.",
    command: `kill -9 $SLUICE; sluice serve & sleep 1; ${curl}`,
    output: await read(next),
  });
  return steps;
}

test("the picture of the README shows what the commands write", async () => {
  const svg = draw(await record());
  if (process.env.SLUICE_UPDATE !== undefined) writeFileSync(FILE, svg);
  expect(svg.length).toBeLessThan(10_000);
  expect(readFileSync(FILE, "utf8")).toBe(svg);
});
