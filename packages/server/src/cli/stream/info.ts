/** `sluice stream info`: what the server reports about one stream. */
import { type ListedStream, SluiceError } from "@sluice/client";
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions, type Remote, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line, table } from "../terminal.ts";

interface Options extends RemoteOptions {
  readonly json?: boolean;
}

export function addInfo(group: Command): void {
  const command = group
    .command("info")
    .description("show the type, size, offsets and limits of a stream")
    .argument("<path>", "the path of the stream")
    .option("--json", "as a JSON object")
    .action(info);
  addRemoteOptions(command);
  examples(command, [
    ["sluice stream info chat/room1", "type, size, offsets, retention"],
    ["sluice stream info chat/room1 --json", "for scripts"],
  ]);
}

async function info(path: string, options: Options): Promise<void> {
  const remote = remoteOf(options);
  const { contentType, offset: nextOffset, closed, expiresAt, ...limits } = await remote.stream(path).info();
  const listed = await entryOf(remote, path);
  // The names and forms of `ls --json`; undefined values are not shown.
  const known = {
    path,
    contentType,
    nextOffset,
    closed,
    expiresAt: expiresAt?.getTime(),
    ...limits,
    messages: listed?.messages,
    bytes: listed?.bytes,
    createdAt: listed?.createdAt,
    lastAppendAt: listed?.lastAppendAt,
  };
  if (options.json) return line(JSON.stringify(known));
  const rows = Object.entries(known).filter(([, value]) => value !== undefined);
  await line(table(rows.map(([label, value]) => [label, harmless(shown(label, value))])));
}

/** The listing has the number of messages. The stream itself comes first among the paths that start with its own. */
async function entryOf(remote: Remote, path: string): Promise<ListedStream | undefined> {
  try {
    for await (const stream of remote.sluice().list({ prefix: path, pageSize: 1 })) {
      return stream.path === path ? stream : undefined;
    }
  } catch (fault) {
    // A token that may read one stream may not be allowed to list.
    if (!(fault instanceof SluiceError)) throw fault;
  }
  return undefined;
}

function shown(label: string, value: unknown): string {
  if (value === null || value === undefined) return "-";
  return label.endsWith("At") ? new Date(value as number).toISOString() : String(value);
}
