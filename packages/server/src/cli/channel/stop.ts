/** `sluice channel stop`: asks the publisher of a channel to stop, wherever it runs. */
import type { Command } from "commander";
import { CliError, EXIT } from "../exit.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line } from "../terminal.ts";

interface Options extends RemoteOptions {
  readonly reason?: string;
}

export function addStop(group: Command): void {
  const command = group
    .command("stop")
    .description("ask the publisher of a channel to stop; it ends the channel itself")
    .argument("<channel>", "the id of the channel")
    .option("--reason <TEXT>", "why, for the publisher and for readers")
    .action(stop);
  addRemoteOptions(command);
  examples(command, [
    ["sluice channel stop answers/7", "a stop button in the shell"],
    ["sluice channel stop answers/7 --reason 'too long'", "with a reason"],
  ]);
}

async function stop(channel: string, options: Options): Promise<void> {
  const isAsked = await remoteOf(options).channel(channel).stop({ reason: options.reason });
  if (!isAsked) throw new CliError(EXIT.conflict, `the channel ${harmless(channel)} has ended already`);
  await line(`asked ${harmless(channel)} to stop`);
}
