#!/bin/sh
# Finds memsearch for an agent's hooks and skills and runs it with the arguments given here.
# Agents are often started without the user's PATH, so it is looked for in this order:
#   1. the command that "memsearch install" or the set-up wrote down
#   2. the PATH and ~/.local/bin, if what is there is this memsearch and not its namesake
#   3. this checkout: with Python 3.11 and nothing else installed, hooks already keep their
#      turns, and the first session starts the set-up in the background
# It never fails a hook: where there is nothing to run, the hook answers {}.

here=${0%/*}
[ "$here" = "$0" ] && here=.
if [ "${here##*/}" = agents ] && [ -z "$MEMSEARCH_HOME" ]; then
  MEMSEARCH_HOME=${here%/*}
  export MEMSEARCH_HOME
fi
home=${MEMSEARCH_HOME:-$HOME/.memsearch}

nothing() {
  case "$1" in
    context | hint | enqueue | permit)
      case " $* " in *" text "*) ;; *) printf '{}\n' ;; esac
      exit 0
      ;;
  esac
}

ours() {
  [ -f "$1" ] && [ -x "$1" ] || return 1
  number=0
  while IFS= read -r line && [ "$number" -lt 20 ]; do
    case $line in *memsearch._entry*) return 0 ;; esac
    number=$((number + 1))
  done <"$1"
  return 1
}

# A model reads what the recall commands print: fenced, as quoted data.
MEMSEARCH_FENCE=1
export MEMSEARCH_FENCE

if [ $# -eq 0 ]; then
  [ ! -t 0 ] || nothing enqueue
  # Claude Code before about 2.1.140 passes over a hook's list of arguments: what the hook is
  # for is told by its input alone. A quoted mark of the kind has backslashes before its quotes.
  given=$(cat)
  case $given in
    *'"hook_event_name":"SessionStart"'*) set -- context --platform claude-code --enqueue ;;
    *'"hook_event_name":"UserPromptSubmit"'*) set -- hint --platform claude-code --enqueue ;;
    *'"hook_event_name":"PreToolUse"'*) set -- permit ;;
    *'"hook_event_name":"'*) set -- enqueue --platform claude-code ;;
    *) nothing enqueue ;;
  esac
  printf '%s' "$given" | /bin/sh "$0" "$@"
  exit
fi
[ -z "$MEMSEARCH_INTERNAL$MEMSEARCH_DISABLE" ] || nothing "$@"

found=
if [ -r "$home/agents/command" ]; then
  IFS= read -r found <"$home/agents/command" || :
  [ -f "$found" ] && [ -x "$found" ] || found=
fi
if [ -z "$found" ]; then
  for found in "$(command -v memsearch)" "$HOME/.local/bin/memsearch" "$home/venv/bin/memsearch" ''; do
    ours "$found" && break
  done
fi
if [ "$1" = context ] && [ "$found" = "$home/venv/bin/memsearch" ] && [ -f "$here/bootstrap.py" ]; then
  # Set up from a plugin: has the plugin been updated since?
  there=
  [ ! -r "$home/venv/version" ] || IFS= read -r there <"$home/venv/version" || :
  while read -r name equals version; do
    if [ "$name $equals" = "__version__ =" ]; then
      [ "$version" = "\"$there\"" ] || "$home/venv/bin/python" -I -B "$here/bootstrap.py" --renew </dev/null >/dev/null 2>&1
      break
    fi
  done <"$here/../../memsearch/__init__.py"
fi
[ -z "$found" ] || exec "$found" "$@"

if [ -f "$here/bootstrap.py" ]; then
  for python in python3 python3.14 python3.13 python3.12 python3.11; do
    command -v "$python" >/dev/null 2>&1 || continue
    "$python" -I -B "$here/bootstrap.py" "$@"
    code=$?
    # 75: older than Python 3.11, and nothing was read or done
    [ "$code" -eq 75 ] || exit "$code"
  done
fi
if [ "$1" = context ]; then
  case " $* " in
    *" text "*) ;;
    *) printf '{"systemMessage": "memsearch is not installed, so nothing is remembered. It needs Python 3.11 or newer."}\n' ;;
  esac
  exit 0
fi
nothing "$@"
echo "memsearch is not installed (it needs Python 3.11 or newer)" >&2
exit 1
