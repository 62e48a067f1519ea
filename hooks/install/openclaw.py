"""OpenClaw: a plugin folder under MEMSEARCH_HOME, and where ``openclaw.json`` names it.

These are the entries that ``openclaw plugins install --link`` and ``config set`` write; that
command takes the comments out of the file, and cannot put them back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from memsearch.config.errors import MemsearchError
from memsearch.hooks.install import jsontext
from memsearch.hooks.install.base import Fault, Installed
from memsearch.hooks.install.files import Edit, read, whole_file
from memsearch.hooks.install.place import AGENTS_FOLDER, Place, asset, filled
from memsearch.hooks.install.versions import number, printed

NAME = "openclaw"
DISPLAY = "OpenClaw"
PROGRAM = "openclaw"
NEXT = "restart the gateway of OpenClaw, if one runs; the next turn is remembered"

#: The plugin's name in the configuration.
PLUGIN = "memsearch"
#: The conversation is handed to a plugin's hooks only where this stands.
_ACCESS = "allowConversationAccess"
ENTRY = {"enabled": True, "hooks": {_ACCESS: True}}
#: The first release that knows it; one before it does not start where it stands.
_ACCESS_SINCE = (2026, 4, 23)
#: The first release seen in which a plugin can add to the system prompt.
NOTES_SINCE = (2026, 3, 8)

#: Where OpenClaw notes which release wrote the file.
_WRITTEN_BY = ("meta", "lastTouchedVersion")
_PATHS = ("plugins", "load", "paths")
_ENTRIES = ("plugins", "entries")
_ALLOW = ("plugins", "allow")


def root(place: Place) -> str:
    """The folder of its state."""
    environ = place.environ
    named = environ.get("OPENCLAW_STATE_DIR")
    return named or os.path.join(environ.get("OPENCLAW_HOME") or place.user, ".openclaw")


def config_file(place: Place) -> str:
    """Its configuration."""
    named = place.environ.get("OPENCLAW_CONFIG_PATH")
    return named or os.path.join(root(place), "openclaw.json")


def folder(place: Place) -> str:
    """The folder of our plugin."""
    return os.path.join(place.home.root, AGENTS_FOLDER, NAME)


def edits(place: Place) -> list[Edit]:
    """Our part of its files."""
    own = folder(place)
    index = filled(asset(NAME, "index.js"), LAUNCHER_JSON=json.dumps(place.launcher))
    skill = filled(asset("skill", "SKILL.md"), LAUNCHER=place.shell_launcher())
    files = {
        "package.json": asset(NAME, "package.json"),
        "openclaw.plugin.json": asset(NAME, "openclaw.plugin.json"),
        "index.js": index,
        "bridge.js": asset("bridge", "bridge.js"),
        "tools.json": asset("bridge", "tools.json"),
        os.path.join("skills", "memory-recall", "SKILL.md"): skill,
    }
    made = [whole_file(os.path.join(own, name), data) for name, data in files.items()]
    path = config_file(place)
    entry = ENTRY if _knows_access(_version(place, read(path))) else {"enabled": True}
    return [*made, _config(path, own, entry)]


def _version(place: Place, config: bytes | None) -> tuple[int, ...]:
    """The version of the OpenClaw of this machine; empty where nothing tells it."""
    program = place.which(PROGRAM)
    version = number(printed(program, place.environ)) if program else ()
    if not version and config is not None:
        try:
            found = jsontext.find(jsontext.parse(config.decode("utf-8", "replace")), _WRITTEN_BY)
        except MemsearchError:
            found = None  # what is wrong with the file is told where it is edited
        version = number(str(found.value)) if found is not None else ()
    return version


def _knows_access(version: tuple[int, ...]) -> bool:
    """Whether a release knows the setting; a new one where none is told."""
    return not version or version >= _ACCESS_SINCE


def _config(path: str, own: str, entry: Mapping[str, object]) -> Edit:
    def add(old: bytes | None) -> bytes:
        text = "" if old is None else old.decode("utf-8")
        text = text if text.strip("\ufeff \t\r\n") else "{}\n"
        text = jsontext.append_item(text, _PATHS, own)
        text = jsontext.set_member(text, (*_ENTRIES, PLUGIN), entry)
        allow = jsontext.find(jsontext.parse(text), _ALLOW)
        if allow is not None and not any(item.value == PLUGIN for item in allow.nodes):
            # Where its user lists the plugins that may run, ours has to be among them.
            text = jsontext.append_item(text, _ALLOW, PLUGIN)
        return text.encode("utf-8")

    def remove(now: bytes) -> bytes | None:
        text = now.decode("utf-8")
        try:
            paths = jsontext.find(jsontext.parse(text), _PATHS)
        except MemsearchError:
            return now  # nothing of ours can be told apart in it
        ours = [is_ours(item.value) for item in paths.nodes] if paths else []
        if not any(ours):
            return now
        for index in reversed([index for index, found in enumerate(ours) if found]):
            text = jsontext.remove_item(text, _PATHS, index)
        text = jsontext.remove_member(text, (*_ENTRIES, PLUGIN))
        allow = jsontext.find(jsontext.parse(text), _ALLOW)
        for index, item in reversed(list(enumerate(allow.nodes if allow else ()))):
            if item.value == PLUGIN:
                text = jsontext.remove_item(text, _ALLOW, index)
        text = jsontext.prune(text, _PATHS)
        text = jsontext.prune(text, _ENTRIES)
        return text.encode("utf-8")

    return Edit(path, add, remove)


def is_ours(path: str) -> bool:
    """Whether a plugin's path is the folder of some home of memsearch."""
    return path.rstrip("/").endswith(f"/{AGENTS_FOLDER}/{NAME}")


def look(place: Place) -> Installed:
    """What is installed."""
    data = read(config_file(place))
    if data is None:
        return Installed(False)
    parsed = jsontext.parse(data.decode("utf-8", "replace"))
    paths = jsontext.find(parsed, _PATHS)
    named = [item.value for item in paths.nodes if is_ours(item.value)] if paths else []
    faults: list[Fault] = []
    entry = jsontext.find(parsed, (*_ENTRIES, PLUGIN))
    if not named:
        return Installed(False)
    again = f"memsearch install {NAME}"
    if not os.path.isfile(os.path.join(named[-1], "index.js")):
        faults.append(Fault(f"the plugin's folder {named[-1]} is gone", again))
    value = jsontext.to_value(entry) if entry is not None else {}
    value = value if isinstance(value, dict) else {}
    hooks = value.get("hooks")
    if value.get("enabled") is not True:
        faults.append(Fault("the plugin is not enabled", again))
    allowed = isinstance(hooks, dict) and hooks.get(_ACCESS) is True
    version = _version(place, data)
    if version and version < NOTES_SINCE:
        what = (
            "this release of OpenClaw lets no plugin bring in the recent notes;"
            " turns are captured, and the tools search them"
        )
        faults.append(Fault(what, "update OpenClaw"))
    if not _knows_access(version):
        if isinstance(hooks, dict) and _ACCESS in hooks:
            why = f"this release of OpenClaw refuses its configuration for {_ACCESS} in it"
            faults.append(Fault(why, again))
    elif not allowed:
        faults.append(Fault("the plugin may not see the conversation", again))
    return Installed(True, tuple(faults))
