/** `sluice doctor`, as the command line declares it. The examination and the store are loaded only when it runs. */
import type { Command } from "commander";
import { examples } from "./help.ts";

export function addDoctor(program: Command): void {
  const command = program
    .command("doctor")
    .description("check a data directory that no server uses")
    .argument("[dir]", "the data directory", "./sluice-data")
    .option(
      "--repair",
      "cut the unfinished frame at the end of the journal, which a start would skip; changes nothing else",
    )
    .action(async (dir: string, options: { repair?: boolean }) => {
      const { examine } = await import("./doctor-checks.ts");
      await examine(dir, options);
    });
  examples(command, [
    ["sluice doctor /var/lib/sluice", "reads everything and reports; 0 when all is well, 1 when something is damaged"],
    ["sluice doctor /var/lib/sluice --repair", "after a crash; a start would skip the unfinished end by itself"],
  ]);
}
