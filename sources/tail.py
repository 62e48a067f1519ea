"""Conversations without hooks: which ones there are, and when their last turn is over."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping
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
#: Where a configuration of OpenCode lists it, by name or by path; the file may hold comments.
_NAMED = re.compile(rb'"plugins?"\s*:\s*\[[^\]]*memsearch')
#: OpenClaw's configuration.
_OPENCLAW = "openclaw.json"


def settled(turn: Turn) -> Turn:
    """A turn of a conversation that rests: it ended with an answer, or was cut off. Pure."""
    if turn.state != "open":
        return turn
    said = [item for item in turn.items if item.kind != "note"]
    if turn.private or (said and said[-1].kind == "assistant"):
        return dataclasses.replace(turn, state="finished")
    note = Item("note", "This turn was cut off before it ended.")
    return dataclasses.replace(turn, state="interrupted", items=(*turn.items, note))


def has_plugin(platform: str, environ: Mapping[str, str], folders: Iterable[str] = ()) -> bool:
    """Whether our plugin is installed in an agent whose database is polled.

    Args:
        platform: ``opencode`` or ``openclaw``; others have hooks and are not polled.
        environ: Where the agent's folders are looked up.
        folders: Where the agent has worked: OpenCode takes plugins from a project, too.
    """
    home = user_home(environ)
    if platform == "opencode":
        return _opencode_has_plugin(environ, home, folders)
    if platform == "openclaw":
        place = untilde(environ.get("OPENCLAW_HOME") or home, home)
        state = environ.get("OPENCLAW_STATE_DIR") or os.path.join(place, ".openclaw")
        named = environ.get("OPENCLAW_CONFIG_PATH")
        path = untilde(named, home) if named else os.path.join(untilde(state, home), _OPENCLAW)
        return f'"{_PLUGIN}'.encode() in _read(path)
    return False


def _opencode_has_plugin(environ: Mapping[str, str], home: str, folders: Iterable[str]) -> bool:
    """OpenCode merges its configuration from all of these places."""
    if _NAMED.search(environ.get("OPENCODE_CONFIG_CONTENT", "").encode()):
        return True
    named = environ.get("OPENCODE_CONFIG")
    if named and _NAMED.search(_read(untilde(named, home))):
        return True
    config = untilde(environ.get("XDG_CONFIG_HOME") or "~/.config", home)
    places = [os.path.join(config, "opencode"), os.path.join(home, ".opencode")]
    if environ.get("OPENCODE_CONFIG_DIR"):
        places.append(untilde(environ["OPENCODE_CONFIG_DIR"], home))
    for folder in dict.fromkeys(folders):
        for above in _upwards(folder):
            places += [above, os.path.join(above, ".opencode")]
    return any(_place_has_plugin(place) for place in dict.fromkeys(places))


def _place_has_plugin(folder: str) -> bool:
    names = [name for kind in ("plugin", "plugins") for name in _names(os.path.join(folder, kind))]
    if any(name.startswith(_PLUGIN) for name in names):
        return True
    files = ("opencode.json", "opencode.jsonc", "config.json")
    return any(_NAMED.search(_read(os.path.join(folder, name))) for name in files)


def _upwards(folder: str) -> list[str]:
    """A folder and those above it, up to the root of its repository."""
    found: list[str] = []
    while folder not in found and os.path.isabs(folder):
        found.append(folder)
        if os.path.exists(os.path.join(folder, ".git")):
            break
        folder = os.path.dirname(folder)
    return found


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # no such folder, no plugin in it


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(_MAX_CONFIG_BYTES)
    except OSError:
        return b""  # no such file, no plugin in it
