# For .ci/run: steps, and what became of each of them, told again at the end of the log.

reports=$(mktemp -d)

# step <name> <command …>: runs a command, with `set -e` if it is a function. It failed unless it ended with 0, or by `left_out`.
step() {
  running=$1
  local from=$SECONDS state=failed status
  shift
  printf '\n== %s (after %ss)\n' "$running" "$SECONDS"
  : >"$reports/why"
  (set -e; "$@")
  status=$?
  case $status in
    0) state=ok ;;
    75) state='left out' ;;
    *)
      failed=1
      [ -s "$reports/why" ] || why "it ended with $status"
      ;;
  esac
  row "$running" "$state" "$((SECONDS - from))"
  running=
}

# begin <function>: runs it beside the steps that follow, in a folder of reports of its own. `finish` has what became of it.
declare -A begun
begin() {
  mkdir "$reports/$1"
  (
    reports+=/$1
    set -e
    "$1"
  ) >"$reports/$1/out" 2>&1 &
  begun[$1]=$!
}

# finish <function> <name>: the step that waits for it.
finish() {
  local status=0
  # Here, as nothing but its own parent can wait for it.
  wait "${begun[$1]}" || status=$?
  step "$2" ended "$1" "$status"
}
ended() {
  [ ! -s "$reports/$1/why" ] || why "$(tail -n 1 "$reports/$1/why")"
  [ "$2" = 0 ] || cat "$reports/$1/out"
  return "$2"
}

# row <name> <state> <seconds>: a line of the summary, with the last reason that was given.
row() {
  local reason
  reason=$(tail -n 1 "$reports/why")
  printf '%-8s %4ss  %s%s\n' "$2" "$3" "$1" "${reason:+: $reason}" >>"$reports/rows"
}

# why <text>: the reason for what becomes of this step.
why() { printf '%s\n' "$*" | tee -a "$reports/why"; }

left_out() {
  why "$@"
  exit 75
}

# shown <command …>: runs it, and takes the last line that it prints as the reason.
shown() {
  local status=0
  "$@" >"$reports/shown" 2>&1 || status=$?
  cat "$reports/shown"
  grep -v '^\s*$' "$reports/shown" | tail -n 1 >>"$reports/why" || true
  return "$status"
}

# The end of .ci/run, also where it is ended in the middle: then its own status stays.
summary() {
  # A step's own shell, where it is ended before it has put the trap off.
  [ "$BASHPID" = $$ ] || return 0
  if [ -n "${running-}" ]; then
    failed=1
    : >"$reports/why"
    why 'ended in the middle'
    row "$running" failed '?'
  fi
  printf '\n== what became of each step (after %ss)\n' "$SECONDS"
  cat "$reports/rows"
  rm -rf "$reports"
  [ -z "${failed-}" ] || exit 1
}
trap summary EXIT
