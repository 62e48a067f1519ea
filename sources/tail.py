"""Conversations without hooks: which ones there are, and when their last turn is over."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

from memsearch.config.paths import untilde, user_home
from memsearch.sources.base import Item, Turn

#: Seconds without a write after which a conversation rests: its last turn is over, whatever
#: its records say.
QUIET_SECONDS = 600.0
#: The event of a hook that nobody's agent sent: a conversation that is followed has grown.
GREW = "Tail"
#: The same for one that rests.
RESTS = "Rest"
#: The same for the moment since which an agent's conversations are followed.
FOLLOWED = "TailStarted"
#: Bytes of an agent's configuration in which its plugins are looked for.
_MAX_CONFIG_BYTES = 2_000_000
#: How our plugin is called in every agent.
_PLUGIN = "memsearch"


def settled(turn: Turn) -> Turn:
    """A turn of a conversation that rests: it ended with an answer, or was cut off. Pure."""
    if turn.state != "open":
        return turn
    said = [item for item in turn.items if item.kind != "note"]
    if turn.private or (said and said[-1].kind == "assistant"):
        return dataclasses.replace(turn, state="finished")
    note = Item("note", "This turn was cut off before it ended.")
    return dataclasses.replace(turn, state="interrupted", items=(*turn.items, note))


def has_plugin(platform: str, environ: Mapping[str, str]) -> bool:
    """Whether our plugin is installed in an agent whose database is polled.

    Args:
        platform: ``opencode`` or ``openclaw``; others have hooks and are not polled.
        environ: Where the agent's folders are looked up.
    """
    home = user_home(environ)
    if platform == "opencode":
        config = untilde(environ.get("XDG_CONFIG_HOME") or "~/.config", home)
        folder = os.path.join(config, "opencode")
        plugins = [
            name
            for kind in ("plugin", "plugins")
            for name in _names(os.path.join(folder, kind))
            if name.startswith(_PLUGIN)
        ]
        files = [os.path.join(folder, name) for name in ("opencode.json", "opencode.jsonc")]
        return bool(plugins) or any(_mentions(path) for path in files)
    if platform == "openclaw":
        place = untilde(environ.get("OPENCLAW_HOME") or home, home)
        state = environ.get("OPENCLAW_STATE_DIR") or os.path.join(place, ".openclaw")
        return _mentions(os.path.join(untilde(state, home), "openclaw.json"))
    return False


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # no such folder, no plugin in it


def _mentions(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return f'"{_PLUGIN}'.encode() in file.read(_MAX_CONFIG_BYTES)
    except OSError:
        return False
