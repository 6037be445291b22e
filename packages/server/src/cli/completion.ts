/**
 * `sluice completion`: prints a script that completes commands and options in a shell. It is made from the tree of commands, so it
 * knows every command and never runs one.
 */
import type { Command } from "commander";
import { usage } from "./exit.ts";
import { examples } from "./help.ts";
import { line } from "./terminal.ts";

const SHELLS: Readonly<Record<string, (program: Command) => string>> = { bash, zsh, fish };

export function addCompletion(program: Command): void {
  const command = program
    .command("completion")
    .description("print a script that completes commands and options in your shell")
    .argument("<shell>", "bash, zsh or fish")
    .action(async (shell: string) => {
      const script = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined;
      if (script === undefined) throw usage(`the shell must be bash, zsh or fish, not ${JSON.stringify(shell)}`);
      await line(script(program));
    });
  examples(command, [
    ["source <(sluice completion bash)", "in ~/.bashrc; for zsh likewise in ~/.zshrc"],
    ["sluice completion fish > ~/.config/fish/completions/sluice.fish", "once"],
  ]);
}

/** Every command with the words that may follow it: its commands, or its options. */
function* places(command: Command, path = ""): Generator<{ readonly path: string; readonly words: string[] }> {
  const words = command.commands.map((child) => child.name());
  const options = command.options.flatMap(({ long, hidden }) => (long && !hidden ? [long] : []));
  yield { path, words: [...words, ...options, "--help"] };
  for (const child of command.commands) yield* places(child, `${path} ${child.name()}`);
}

/** Options are left out of the path. Behind a command without commands come its arguments, so its pattern ends with `*`. */
function bash(program: Command): string {
  const cases = [...places(program)].reverse().map(({ path, words }) => {
    return `    "${path}"*) words="${words.join(" ")}" ;;`;
  });
  return `_sluice() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" path="" word words=""
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) ;; *) path="$path $word" ;; esac
  done
  case "$path" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _sluice sluice`;
}

function zsh(program: Command): string {
  return `autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n${bash(program)}`;
}

function fish(program: Command): string {
  const lines = ["complete -c sluice -f"];
  const add = (when: string, rest: string) => lines.push(`complete -c sluice -n '${when}' ${rest}`);
  for (const group of program.commands) {
    add("__fish_use_subcommand", `-a ${group.name()} -d ${quoted(group.description())}`);
    for (const child of group.commands) {
      const names = group.commands.map((one) => one.name()).join(" ");
      const when = `__fish_seen_subcommand_from ${group.name()}; and not __fish_seen_subcommand_from ${names}`;
      add(when, `-a ${child.name()} -d ${quoted(child.description())}`);
    }
    for (const leaf of group.commands.length > 0 ? group.commands : [group]) {
      const words = leaf === group ? [group] : [group, leaf];
      const when = words.map((one) => `__fish_seen_subcommand_from ${one.name()}`).join("; and ");
      for (const { long, hidden, description } of leaf.options) {
        if (long && !hidden) add(when, `-l ${long.slice(2)} -d ${quoted(description)}`);
      }
    }
  }
  return lines.join("\n");
}

function quoted(text: string): string {
  return `'${text.replace(/\\/g, "\\\\").replace(/'/g, "\\'")}'`;
}
