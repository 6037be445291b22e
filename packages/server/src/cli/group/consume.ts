/**
 * `sluice group consume`: takes part in a group as one of its members. Prints each message, or runs a command for it, and
 * acknowledges it then. The client reconnects by itself, until enough messages were processed or the user ends the command.
 *
 * Invariants: a message that was not printed, or whose command failed, is not acknowledged. Ctrl-C finishes the message in
 * hand and leaves the group, so that other members go on at once.
 */
import { spawn } from "node:child_process";
import type { Group, GroupEvent, GroupMessage } from "@sluice/client";
import type { Command } from "commander";
import { parseCount } from "../duration.ts";
import { CliError, EXIT, endSignal } from "../exit.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { limitOf } from "../stream/messages.ts";
import { harmless, line, say } from "../terminal.ts";
import { GROUP_ARGUMENT, placeOf } from "./which.ts";

interface Options extends RemoteOptions {
  readonly queue?: boolean;
  readonly member?: string;
  readonly from?: string;
  readonly credit?: string;
  readonly exec?: string;
  readonly json?: boolean;
  readonly limit?: string;
}

/** The delay before a message of a queue whose command failed is delivered again. */
const RETRY_MS = 1_000;

export function addConsume(group: Command): void {
  const command = group
    .command("consume")
    .description("consume as a member of a group: prints each message, then acknowledges it; reconnects by itself")
    .argument("<group>", `${GROUP_ARGUMENT}; it is created if there is none`)
    .argument("<filter>", "the streams that its members share, like 'orders/#'")
    .option("--queue", "share single messages instead of streams")
    .option("--member <NAME>", "the name of this member; a returning member gets its streams back (default: random)")
    .option("--from <PLACE>", "where a new group begins: earliest, latest, an offset or a time (default: latest)")
    .option("--credit <N>", "messages that this member takes at a time (default: 100)")
    .option(
      "--exec <COMMAND>",
      "run this for each message, with the payload as input; exit code 0 acknowledges the message",
    )
    .option("--json", "one JSON object per line: stream, offset, value, key, attributes, attempt")
    .option("--limit <N>", "end after N messages")
    .action(consume);
  addRemoteOptions(command);
  examples(command, [
    ["sluice group consume billing 'orders/#'", "in several terminals: each gets a part of the streams"],
    [
      "sluice group consume billing 'orders/#' --from earliest --member w1",
      "a new group that begins with the oldest messages",
    ],
    ["sluice group consume mail mail --queue --exec ./send-mail", "one message after another to a command"],
  ]);
}

async function consume(name: string, filter: string, options: Options): Promise<void> {
  const { queue, member, from, credit, exec, json } = options;
  const limit = limitOf(options.limit);
  const remote = remoteOf(options);
  const group = remote.group(name, filter, {
    mode: queue ? "queue" : "share",
    member,
    from: from === undefined ? undefined : placeOf("--from", from),
    credit: credit === undefined ? undefined : parseCount("--credit", credit),
    WebSocket: remote.socketClass(),
    onEvent: tell,
  });
  // A member waits for a server that is away. One that was never there is a mistake.
  await remote.fetch(`${remote.url}/health`);
  const process = (message: GroupMessage) => (exec === undefined ? show(message, json === true) : run(exec, message));
  await work(group, process, limit);
}

async function work(group: Group, process: (message: GroupMessage) => Promise<void>, limit: number): Promise<void> {
  let acknowledged = 0;
  endSignal().addEventListener("abort", () => void group.close());
  let left = limit;
  let isWhole = false;
  try {
    for await (const message of group) {
      if (await isDone(message, process)) {
        message.ack().then(
          () => acknowledged++,
          () =>
            say(`${harmless(message.stream)} ${message.offset} was not acknowledged in time; it is delivered again`),
        );
      }
      if (--left <= 0) break;
    }
    isWhole = true;
  } finally {
    // A refusal says enough by itself.
    if (isWhole || acknowledged > 0) say(`${acknowledged} ${acknowledged === 1 ? "message" : "messages"} acknowledged`);
  }
}

/** A message of a queue that fails goes to another member; a shared stream cannot go past it. */
async function isDone(message: GroupMessage, process: (message: GroupMessage) => Promise<void>): Promise<boolean> {
  try {
    await process(message);
    return true;
  } catch (fault) {
    if (message.attempt === undefined || !(fault instanceof CliError)) throw fault;
    say(`${fault.message}; it is delivered again`);
    message.nack({ delayMs: RETRY_MS });
    return false;
  }
}

function show(message: GroupMessage, isJson: boolean): Promise<void> {
  const { stream, value, ...rest } = message;
  const isBytes = value instanceof Uint8Array;
  const shown = isBytes ? Buffer.from(value).toString("base64") : value;
  if (isJson) return line(JSON.stringify({ stream, ...rest, value: shown, ...(isBytes && { encoding: "base64" }) }));
  return line(`${harmless(stream)}  ${harmless(typeof shown === "string" ? shown : JSON.stringify(shown))}`);
}

/** The command has a group of its own, so that Ctrl-C lets it finish. */
function run(command: string, { stream, offset, value, key, attempt }: GroupMessage): Promise<void> {
  const env = {
    ...process.env,
    SLUICE_STREAM: stream,
    SLUICE_OFFSET: offset,
    ...(key !== undefined && { SLUICE_KEY: key }),
    ...(attempt !== undefined && { SLUICE_ATTEMPT: String(attempt) }),
  };
  const child = spawn("sh", ["-c", command], { env, stdio: ["pipe", "inherit", "inherit"], detached: true });
  // A command need not read its input.
  child.stdin.on("error", () => {});
  child.stdin.end(typeof value === "string" || value instanceof Uint8Array ? value : JSON.stringify(value));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => {
      const says = `the command failed for ${harmless(stream)} ${offset} (${signal ?? `exit code ${code}`})`;
      if (code === 0) resolve();
      else reject(new CliError(EXIT.failure, says));
    });
  });
}

function tell(event: GroupEvent): void {
  if (event.type === "connected") say("joined the group; Ctrl-C leaves it");
  else if (event.type === "gap") {
    say(`${harmless(event.stream)}: messages after ${event.after} through ${event.through} are gone`);
  } else if (event.type !== "disconnected") say(`${event.type} ${harmless(event.stream)}`);
}
