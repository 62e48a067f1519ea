"""Claude Code: hooks in ``settings.json`` and the skill beside it.

The plugin in the repository does the same by Claude Code's own means. This way needs no
``claude`` on the PATH, can be shown beforehand and undone byte for byte, which
``claude plugin`` does not offer: it writes four files of its own and keeps a copy of the
checkout.

A hook is the path of our script and a list of arguments, and no shell reads either. Releases
before about 2.1.140 pass over that list and give the command to a shell: where one of them is
installed the arguments stand in the command, and where the plugin runs in one, or a newer one
was there at the installation, the script sees by its input what it is for.
"""

from __future__ import annotations

import json
import os
import shlex

from memsearch.hooks.install.base import Fault, Installed
from memsearch.hooks.install.files import Edit, read, whole_file
from memsearch.hooks.install.hooks_json import Groups, hooks_edit, ours
from memsearch.hooks.install.place import AGENTS_FOLDER, LAUNCHER, Place, asset, skill
from memsearch.hooks.install.versions import WITHOUT_HOOKS, number, printed

NAME = "claude-code"
DISPLAY = "Claude Code"
PROGRAM = "claude"
#: The first release that knows all events of ours. One before it passes over the hooks of a
#: file, its user's own too, where it does not know the name of an event.
HOOKS_SINCE = (1, 0, 85)
#: The first release that was seen to take a hook's list of arguments; 2.1.119 does not.
ARGUMENTS_SINCE = (2, 1, 150)
#: What to do after an installation.
NEXT = "start a new session of Claude Code; its first turn is remembered"


def root(place: Place) -> str:
    """The folder of the user's settings."""
    return place.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(place.user, ".claude")


def edits(place: Place) -> list[Edit]:
    """Our part of the user's files."""
    folder = root(place)
    return [
        hooks_edit(os.path.join(folder, "settings.json"), groups(place), is_ours),
        whole_file(os.path.join(folder, "skills", "memory-recall", "SKILL.md"), skill(place)),
    ]


def groups(place: Place) -> Groups:
    """The plugin's hooks, with the installed script in the place of the checkout's."""
    found: dict[str, list[dict[str, object]]] = json.loads(asset(NAME, "hooks.json"))["hooks"]
    version = _version(place)
    listed = not version or version >= ARGUMENTS_SINCE
    made: dict[str, dict[str, object]] = {}
    for event, (group,) in found.items():
        hooks = group["hooks"]
        assert isinstance(hooks, list)
        made[event] = {**group, "hooks": [_installed(hook, place, listed) for hook in hooks]}
    return made


def _installed(hook: dict[str, object], place: Place, listed: bool) -> dict[str, object]:
    if listed:
        return {**hook, "command": place.launcher}
    words = hook["args"]
    assert isinstance(words, list)
    command = shlex.join([place.launcher, *words])
    return {**{key: value for key, value in hook.items() if key != "args"}, "command": command}


def is_ours(command: str) -> bool:
    """Whether a hook's command is the script of some home of memsearch, alone or with its
    arguments."""
    _, script, rest = command.partition(f"/{AGENTS_FOLDER}/{LAUNCHER}")
    words = rest.strip("'\"").split()
    return bool(script) and (words in ([], ["permit"]) or words[1:3] == ["--platform", NAME])


def look(place: Place) -> Installed:
    """What is installed."""
    folder = root(place)
    faults: list[Fault] = []
    events = ours(read(os.path.join(folder, "settings.json")), is_ours)
    expected = set(groups(place))
    plugin = plugins(folder)
    by_plugin = any(name.split("@")[0] == "memsearch" and OWN in name for name in plugin)
    if events and not expected <= events:
        missing = ", ".join(sorted(expected - events))
        faults.append(Fault(f"hooks are missing: {missing}", f"memsearch install {NAME}"))
    if events and by_plugin:
        faults.append(
            Fault(
                "installed twice, as a plugin and in settings.json: each turn costs two hooks",
                f"memsearch uninstall {NAME}, or claude plugin uninstall {OWN}",
            )
        )
    faults += [
        Fault(
            f"{name}, the plugin of the memsearch of PyPI, captures too",
            f"claude plugin uninstall {name}",
        )
        for name in plugin
        if name.startswith("memsearch@") and name != OWN
    ]
    installed = bool(events) or by_plugin
    if installed:
        faults += _lacking(place)
    return Installed(installed, tuple(faults))


def _lacking(place: Place) -> list[Fault]:
    """What the release on the PATH is short of."""
    version = _version(place)
    if not version or version >= HOOKS_SINCE:
        return []
    shown = ".".join(map(str, version))
    what = f"Claude Code {shown} knows too few hooks, and runs none of a file that has ours"
    return [Fault(what, f"update Claude Code; {WITHOUT_HOOKS}")]


def _version(place: Place) -> tuple[int, ...]:
    """The release on the PATH; empty where there is none, or it does not say."""
    program = place.which(PROGRAM)
    return number(printed(program, place.environ)) if program else ()


#: Our plugin, as Claude Code names it.
OWN = "memsearch@memsearch"


def plugins(folder: str) -> list[str]:
    """The plugins that Claude Code has enabled."""
    data = read(os.path.join(folder, "settings.json"))
    try:
        found = json.loads(data or b"{}").get("enabledPlugins", {})
    except (ValueError, AttributeError):
        return []
    if not isinstance(found, dict):
        return []
    return [name for name, enabled in found.items() if enabled]
