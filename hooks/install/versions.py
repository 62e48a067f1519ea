"""Which version of an agent is on this machine."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping

#: What helps where a release runs no hooks of ours.
WITHOUT_HOOKS = "until then, memsearch config set capture.tail true captures without hooks"
#: Seconds that an agent has to tell its version; some of them load a thousand files first.
VERSION_SECONDS = 20.0
#: Characters of it that are kept.
_MAX_CHARS = 80
_NUMBER = re.compile(r"\d+(?:\.\d+)+")


def printed(program: str, environ: Mapping[str, str]) -> str:
    """What an agent's program calls its version; empty when it does not answer.

    Args:
        program: Its path.
        environ: The user's environment.
    """
    lines = answer(program, environ, "--version").splitlines()
    return lines[0][:_MAX_CHARS] if lines else ""


def answer(program: str, environ: Mapping[str, str], *arguments: str) -> str:
    """What an agent's program prints; empty when it does not answer, or fails.

    Args:
        program: Its path.
        environ: The user's environment.
        arguments: What it is asked.
    """
    try:
        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_SECONDS,
            # Its hooks, if it has any for this, must not take it for a session.
            env={**environ, "MEMSEARCH_INTERNAL": "1"},
            cwd="/",
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def number(text: str) -> tuple[int, ...]:
    """The first version number in a text, part by part; empty when it holds none. Pure."""
    found = _NUMBER.search(text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
