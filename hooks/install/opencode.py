"""OpenCode: a plugin file, what it shares with OpenClaw's beside it, and the skill.

OpenCode loads every file of its plugin folder, so that no configuration is touched.
"""

from __future__ import annotations

import json
import os

from memsearch.hooks.install.base import Fault, Installed
from memsearch.hooks.install.files import Edit, read, whole_file
from memsearch.hooks.install.place import Place, asset, filled
from memsearch.hooks.install.versions import number, printed

NAME = "opencode"
DISPLAY = "OpenCode"
PROGRAM = "opencode"
NEXT = "start a new session of OpenCode; its first turn is remembered"

#: The first release seen in which a plugin can add to the system prompt.
NOTES_SINCE = (1, 0, 162)


def root(place: Place) -> str:
    """The folder of the user's settings."""
    environ = place.environ
    named = environ.get("OPENCODE_CONFIG_DIR")
    if named:
        return named
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(place.user, ".config")
    return os.path.join(config, "opencode")


def edits(place: Place) -> list[Edit]:
    """Our files."""
    folder = root(place)
    plugin = filled(asset(NAME, "memsearch.js"), LAUNCHER_JSON=json.dumps(place.launcher))
    skill = filled(asset("skill", "SKILL.md"), LAUNCHER=place.shell_launcher())
    return [
        whole_file(os.path.join(folder, "memsearch", "bridge.js"), asset("bridge", "bridge.js")),
        whole_file(os.path.join(folder, "memsearch", "tools.json"), asset("bridge", "tools.json")),
        whole_file(os.path.join(folder, "plugin", "memsearch.js"), plugin),
        whole_file(os.path.join(folder, "skill", "memory-recall", "SKILL.md"), skill),
    ]


def look(place: Place) -> Installed:
    """What is installed."""
    wanted = edits(place)
    missing = [edit.path for edit in wanted if read(edit.path) is None]
    if len(missing) == len(wanted):
        return Installed(False)
    old = [edit.path for edit in wanted if read(edit.path) not in (None, edit.add(None))]
    faults = [
        Fault(f"{what}: {', '.join(map(os.path.basename, paths))}", f"memsearch install {NAME}")
        for what, paths in (("files are missing", missing), ("of another version", old))
        if paths
    ]
    program = place.which(PROGRAM)
    version = number(printed(program, place.environ)) if program else ()
    if version and version < NOTES_SINCE:
        what = (
            "this release of OpenCode lets no plugin bring in the recent notes;"
            " turns are captured, and the tools search them"
        )
        faults.append(Fault(what, "update OpenCode"))
    return Installed(True, tuple(faults))
