# The shell of a reader who pastes the blocks of one page. Commands that run until Ctrl-C get their Ctrl-C after their first output.
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
    serve*) shift; node "$DOCS_SLUICE" config check "$@" ;;
    "stream tail" | "session tail" | "group consume" | "wake tail" | "pull "*) until_it_speaks "$@" ;;
    *) node "$DOCS_SLUICE" "$@" ;;
  esac
}

until_it_speaks() {
  local said=$(mktemp said.XXXXXX) status=0
  node "$DOCS_SLUICE" "$@" >"$said" 2>&1 &
  local pid=$!
  while [ ! -s "$said" ] && kill -0 $pid 2>/dev/null; do command sleep 0.05; done
  kill -INT $pid 2>/dev/null || true
  wait $pid || status=$?
  cat "$said"
  return $status
}

# A reader waits until the output is there; a busy machine may take longer than the second that the page names.
sleep() { command sleep $(($1 + 2)); }

# Programs of the reader.
my-model() { printf 'Hello, '; printf 'world.\n'; }
