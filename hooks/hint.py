"""``memsearch hint``: one line that tells a model that there is a memory to search."""

from __future__ import annotations

import os
import sys
import time

from memsearch.config.marks import MEMORY_HINT
from memsearch.config.paths import Home
from memsearch.config.project import resolve, working_folder
from memsearch.hooks import glance, reply
from memsearch.hooks.enqueue import MalformedError

#: Columns that a prompt has at least ("go on" needs no memory). A Han letter has two.
MIN_COLUMNS = 10

#: First and last code point of the letters that take two columns (East Asian Width W and F).
_WIDE = (
    (0x1100, 0x115F),
    (0x2E80, 0x303E),
    (0x3041, 0xA4CF),
    (0xA960, 0xA97F),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF),
    (0xFE30, 0xFE6F),
    (0xFF01, 0xFF60),
    (0xFFE0, 0xFFE6),
    (0x1F300, 0x1FAFF),
    (0x20000, 0x3FFFD),
)

HELP = """Usage: memsearch hint --platform PLATFORM [--format json|text] [--enqueue]

For hooks: reads the hook's JSON object from standard input, and says that there is a memory
where the project has one and the prompt is ten columns or more.

  --platform PLATFORM  claude-code, codex, openclaw or opencode
  --format FORMAT      json (as Claude Code and Codex take it) or text
  --enqueue            also take note of the event, as memsearch enqueue does

Example:
  echo '{"prompt": "why did we drop redis?", "cwd": "…"}' \\
    | memsearch hint --platform claude-code

Exit codes: 0; 2 when a person calls it wrongly.
"""


def main(argv: list[str]) -> int:
    """Run the command.

    Args:
        argv: The arguments after ``hint``.

    Returns:
        The exit code: 0, or 2 when a person called it wrongly.
    """
    if "--help" in argv or "-h" in argv:
        sys.stdout.write(HELP)
        return 0
    options: reply.Options | None = None
    started = time.time()
    environ = dict(os.environ)
    try:
        options = reply.parse_arguments(argv)
        if reply.switched_off(environ):
            reply.write(reply.answer(options, "", "", ""))
            return 0
        if not options.platform:
            raise MalformedError("--platform is missing")
        raw = reply.payload(options)
    except MalformedError as error:
        return reply.refuse("hint", error, options)
    home = Home.from_env(environ)
    event = reply.text_of(raw, "hook_event_name") or options.event or "UserPromptSubmit"
    context = ""
    if columns(reply.text_of(raw, "prompt"), MIN_COLUMNS) >= MIN_COLUMNS:
        cwd = reply.text_of(raw, "cwd", "directory", "workspace_dir") or working_folder(environ)
        settings, _ = glance.configuration(home)
        project = resolve(
            cwd, environ, isolate_worktrees=glance.isolates_worktrees(settings, environ)
        )
        context = MEMORY_HINT if has_memory(project.memory_dir) else ""
    reply.write(reply.answer(options, event, context, ""))
    if options.enqueue:
        reply.take_note(options, raw, home, started)
    return 0


def columns(text: str, enough: int) -> int:
    """Columns that a text takes on a terminal, counted until there are enough."""
    total = 0
    for letter in text.strip():
        code = ord(letter)
        wide = code >= 0x1100 and any(first <= code <= last for first, last in _WIDE)
        total += 2 if wide else 1
        if total >= enough:
            break
    return total


def has_memory(memory_dir: str) -> bool:
    """Whether a folder holds any Markdown, a human's as well."""
    try:
        with os.scandir(memory_dir) as entries:
            return any(entry.name.lower().endswith((".md", ".markdown")) for entry in entries)
    except OSError:
        return False
