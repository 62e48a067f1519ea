"""``memsearch permit``: lets an agent run our recall commands without asking its user each time.

Claude Code asks before each shell command, and a skill that names ``allowed-tools`` is itself
asked about. So the plugin answers the question for its own read-only commands, and only for
those: one simple command, every character of it accounted for. Whatever is not understood is
left to the agent's own question.
"""

from __future__ import annotations

import json
import os
import sys

from memsearch.config.paths import Home
from memsearch.hooks import enqueue, reply
from memsearch.hooks.enqueue import MalformedError

#: What reads and writes nothing.
COMMANDS = frozenset({"search", "expand", "transcript", "list", "stats", "status", "context"})
#: The script that finds memsearch.
LAUNCHER = "memsearch.sh"

#: ASCII that means nothing to a shell outside quotes.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")
#: What still means something between double quotes.
_ALIVE = frozenset('$`\\"!')

HELP = """Usage: memsearch permit

For Claude Code's PreToolUse hook: reads the hook's JSON object from standard input and allows
a Bash command that is one of memsearch's own reading commands, nothing else.
"""


def main(argv: list[str]) -> int:
    """Run the command.

    Args:
        argv: The arguments after ``permit``.

    Returns:
        The exit code, always 0: a fault leaves the decision to the agent.
    """
    if "--help" in argv or "-h" in argv:
        sys.stdout.write(HELP)
        return 0
    try:
        raw = enqueue.read_object(0)
    except MalformedError as error:
        sys.stderr.write(f"memsearch permit: {error}\n")
        reply.write(b"{}\n")
        return 0
    given = raw.get("tool_input")
    command = given.get("command") if isinstance(given, dict) else None
    body: dict[str, object] = {}
    environ = dict(os.environ)
    if raw.get("tool_name") == "Bash" and isinstance(command, str):
        words = split(command)
        if words is not None and allowed(words, launchers(Home.from_env(environ), environ)):
            body["hookSpecificOutput"] = {
                "hookEventName": "PreToolUse",
                "permissionDecision": "allow",
                "permissionDecisionReason": "memsearch reads its own notes",
            }
    reply.write((json.dumps(body) + "\n").encode("ascii"))
    return 0


def launchers(home: Home, environ: dict[str, str]) -> frozenset[str]:
    """The real paths of the scripts that find memsearch: the installed one, the plugin's."""
    found = [os.path.join(home.root, "agents", LAUNCHER)]
    plugin = environ.get("CLAUDE_PLUGIN_ROOT")
    if plugin:
        found.append(os.path.join(plugin, "hooks", "assets", LAUNCHER))
    return frozenset(os.path.realpath(path) for path in found)


def allowed(words: list[str], scripts: frozenset[str]) -> bool:
    """Whether a command is ``sh OUR-SCRIPT search …``: what another ``memsearch`` on the PATH
    would do, nobody knows."""
    if words[:1] == ["sh"] and len(words) > 2 and os.path.isabs(words[1]):
        return os.path.realpath(words[1]) in scripts and words[2] in COMMANDS
    return False


def split(command: str) -> list[str] | None:
    """The words of one simple shell command; None when it is, or may be, anything more.

    Plain words, backslashes, single quotes, and double quotes around what means nothing there. No
    variables, substitutions, pipes, redirections, lists, patterns, comments or line ends.
    """
    words: list[str] = []
    word: list[str] | None = None
    at = 0
    while at < len(command):
        letter = command[at]
        if letter in " \t":
            if word is not None:
                words.append("".join(word))
            word = None
        elif letter in "'\"":
            end = command.find(letter, at + 1)
            if end < 0:
                return None
            quoted = command[at + 1 : end]
            if "\0" in quoted or (letter == '"' and any(sign in _ALIVE for sign in quoted)):
                return None
            word = [*(word or []), quoted]
            at = end
        elif letter == "\\" and command[at + 1 : at + 2] not in ("", "\n"):
            word = [*(word or []), command[at + 1]]
            at += 1
        elif letter in _PLAIN or (ord(letter) > 127 and letter.isalnum()):
            word = [*(word or []), letter]
        else:
            return None
        at += 1
    if word is not None:
        words.append("".join(word))
    return words
