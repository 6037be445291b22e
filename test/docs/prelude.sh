# The shell of a reader who pastes the blocks of one page. `sluice` is run by the test (`relay.ts`), because starting a process for
# each command takes longest. Commands that run until Ctrl-C end after their first message.
set -E
trap 'printf "@failed %s (exit %s)\n" "$BASH_COMMAND" "$?"' ERR

npx() {
  if [ "$1" != sluice ]; then echo "@failed npx $1 is not known to the test"; return; fi
  shift
  sluice "$@"
}

sluice() {
  case "$1 ${2:-}" in
    # The flags of a server are checked; the server of the page runs already.
    serve*) shift; set -- config check "$@" ;;
    "stream tail" | "session tail" | "group consume" | "wake tail" | "pull "*) set -- "$@" --limit 1 ;;
    "bench "*) set -- "$@" --count 20 ;;
  esac
  case "$*" in
    # A command of the reader is in the directory of the page, which the test's own process is not in.
    *--exec*) node "$DOCS_SLUICE" "$@" ;;
    *) relayed "$@" ;;
  esac
}

relayed() {
  local said=$(mktemp said.XXXXXX) wrapped="-w0"
  curl --disable -s --data-binary @- -o "$said" -D "$said.head" "$DOCS_RELAY" \
    -H "Args: $(printf '%s\0' "$@" | base64 $wrapped)" -H "Env: $(env | grep -E '^(SLUICE_|XDG_CONFIG)' | base64 $wrapped)"
  cat "$said"
  sed -n 's/^Said: //p' "$said.head" | tr -d '\r' | base64 -d >&2
  return "$(sed -n 's/^Code: //p' "$said.head" | tr -d '\r')"
}

# A reader waits until the output is there; a busy machine may take longer than the second that the page names.
sleep() { command sleep $(($1 + 2)); }

# Programs of the reader.
my-model() { printf 'Hello, '; printf 'world.\n'; }
