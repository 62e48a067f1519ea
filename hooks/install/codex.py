"""Codex: hooks, the skill, and the MCP server in ``config.toml``.

Codex runs a hook only when its user has trusted it, and passes over one that is not trusted
without a word. That trust is the user's to give; ``look`` says when it is missing.

What a release can do is told by its own list of features. Before 0.114 it has no hooks; up to
0.128 they are ``codex_hooks``, at first switched off, and nobody is asked to trust them; since
0.129 they are ``hooks``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from memsearch.config.errors import MemsearchError
from memsearch.hooks.install import jsontext, tomltext
from memsearch.hooks.install.base import Fault, Installed
from memsearch.hooks.install.files import Edit, read, whole_file
from memsearch.hooks.install.hooks_json import Groups, hooks_edit, ours
from memsearch.hooks.install.place import (
    AGENTS_FOLDER,
    LAUNCHER,
    Place,
    asset,
    filled,
)
from memsearch.hooks.install.versions import WITHOUT_HOOKS, answer

NAME = "codex"
DISPLAY = "Codex"
PROGRAM = "codex"
NEXT = (
    "start codex once and trust the hooks of memsearch when it asks (or by /hooks):"
    " until then it runs none of them, and says nothing"
)

#: The same where the hooks are trusted, or a release asks for no trust.
_NEXT_UNASKED = "start a new session of Codex; its first turn is remembered"

#: What the hooks are called among the features, in today's releases and in older ones.
HOOKS, OLD_HOOKS = "hooks", "codex_hooks"
#: Events that every release with hooks knows. Of the others a release may not know all, and
#: then never asks to trust them.
ESSENTIAL = frozenset({"SessionStart", "UserPromptSubmit", "Stop"})

#: Our plugin, as Codex names it.
PLUGIN = "memsearch@memsearch"
#: The table of the MCP server.
SERVER = ("mcp_servers", "memsearch")
#: What Codex does not hand to its servers unless it is told to, and recall wants to know.
FORWARDED = (
    "MEMSEARCH_HOME",
    "MEMSEARCH_DIR",
    "CODEX_HOME",
    "CLAUDE_CONFIG_DIR",
    "XDG_DATA_HOME",
    "OPENCODE_DB",
    "OPENCLAW_HOME",
    "OPENCLAW_STATE_DIR",
)
#: Seconds that the server may take to start (Codex's own ten are few on a busy machine), and
#: a first search, which loads a model.
START_SECONDS = 60
TOOL_SECONDS = 120


def root(place: Place) -> str:
    """The folder of the user's settings."""
    return place.environ.get("CODEX_HOME") or os.path.join(place.user, ".codex")


def edits(place: Place) -> list[Edit]:
    """Our part of the user's files."""
    folder = root(place)
    skill = filled(asset("skill", "SKILL.md"), LAUNCHER=place.shell_launcher())
    return [
        hooks_edit(os.path.join(folder, "hooks.json"), groups(place), is_ours),
        whole_file(os.path.join(folder, "skills", "memory-recall", "SKILL.md"), skill),
        _server(os.path.join(folder, "config.toml"), place),
    ]


def groups(place: Place) -> Groups:
    """What is added to each event."""
    found: dict[str, list[dict[str, list[dict[str, object]]]]]
    found = json.loads(asset(NAME, "hooks.json"))["hooks"]
    made: dict[str, dict[str, object]] = {}
    for event, (group,) in found.items():
        # Codex takes a command for its shell, not an argument list: the path is quoted for one.
        hooks = [
            {**hook, "command": str(hook["command"]).replace("@LAUNCHER@", place.shell_launcher())}
            for hook in group["hooks"]
        ]
        made[event] = {"hooks": hooks}
    return made


def is_ours(command: str) -> bool:
    """Whether a hook's command runs the script of some home of memsearch."""
    return f"/{AGENTS_FOLDER}/{LAUNCHER}" in command and command.endswith(
        ("--platform codex", "--platform codex --enqueue")
    )


def _server(path: str, place: Place) -> Edit:
    values = {
        "command": place.launcher,
        "args": ["mcp"],
        "env_vars": list(FORWARDED),
        "startup_timeout_sec": START_SECONDS,
        "tool_timeout_sec": TOOL_SECONDS,
    }

    def add(old: bytes | None) -> bytes:
        text = "" if old is None else old.decode("utf-8")
        return tomltext.append_table(text, SERVER, values).encode("utf-8")

    def remove(now: bytes) -> bytes | None:
        text = now.decode("utf-8")
        try:
            command = tomltext.get(tomltext.parse(text), (*SERVER, "command"))
        except MemsearchError:
            return now  # nothing of ours can be told apart in it
        if not isinstance(command, str) or not command.endswith(f"/{AGENTS_FOLDER}/{LAUNCHER}"):
            return now
        left = tomltext.remove_table(text, SERVER)
        return left.encode("utf-8") if left.strip() else None

    return Edit(path, add, remove)


def look(place: Place) -> Installed:
    """What is installed, and whether Codex runs it."""
    folder = root(place)
    path = os.path.join(folder, "hooks.json")
    data = read(path)
    events = ours(data, is_ours)
    config = (read(os.path.join(folder, "config.toml")) or b"").decode("utf-8", "replace")
    try:
        values = tomltext.parse(config)
    except MemsearchError as error:
        fault = Fault(f"config.toml cannot be read: {error.message}", "mend it")
        return Installed(bool(events), (fault,), False if events else None)
    by_plugin = tomltext.get(values, ("plugins", PLUGIN, "enabled")) is True
    if not events and not by_plugin:
        return Installed(False)
    faults: list[Fault] = []
    again = f"memsearch install {NAME}"
    if events:
        missing = sorted(set(groups(place)) - events)
        if missing:
            faults.append(Fault(f"hooks are missing: {', '.join(missing)}", again))
        if tomltext.get(values, SERVER) is None:
            faults.append(Fault("the MCP server is missing", again))
    if events and by_plugin:
        faults.append(
            Fault(
                "installed twice, as a plugin and by hooks.json: each turn costs two hooks",
                f"memsearch uninstall {NAME}, or codex plugin remove {PLUGIN}",
            )
        )
    features = _features(place)
    if features is not None:
        faults += lacking(features)
        if HOOKS not in features:
            return Installed(True, tuple(faults), next=_NEXT_UNASKED)
    untrusted = _untrusted(values, keys(path, data) if events else _plugin_keys())
    if untrusted:
        faults.append(
            Fault(
                f"{len(untrusted)} hooks are not trusted, so Codex does not run them",
                "start codex and trust them (/hooks)",
                expected=True,
            )
        )
    return Installed(True, tuple(faults), not untrusted, "" if untrusted else _NEXT_UNASKED)


def _features(place: Place) -> dict[str, bool] | None:
    """The features of the Codex on the PATH; None where none is there, or none answers."""
    program = place.which(PROGRAM)
    if not program or not answer(program, place.environ, "--version"):
        return None
    return read_features(answer(program, place.environ, "features", "list"))


def read_features(text: str) -> dict[str, bool]:
    """What ``codex features list`` prints: name, stage, whether it is on. Pure.

    A release that does not know the command prints none.
    """
    rows = (line.split() for line in text.splitlines())
    return {row[0]: row[-1] == "true" for row in rows if row and row[-1] in ("true", "false")}


def lacking(features: Mapping[str, bool]) -> list[Fault]:
    """What a release's features are short of. Pure."""
    name = HOOKS if HOOKS in features else OLD_HOOKS
    if name not in features:
        what = "this release of Codex has no hooks: no turn is captured, no note brought in"
        return [Fault(what, f"update Codex to 0.124 or newer; {WITHOUT_HOOKS}")]
    if not features[name]:
        what = "hooks are switched off in Codex: no turn is captured, no note brought in"
        return [Fault(what, f"codex features enable {name}")]
    return []


def _untrusted(values: dict[str, object], keys_: Mapping[str, str]) -> list[str]:
    """The hooks that Codex's record of trust does not hold; none, where it holds the essential.

    A hook that was changed since is not told from one that was not: its hash is Codex's own.
    """
    state = ("hooks", "state")
    missing = [key for key in keys_ if not tomltext.get(values, (*state, key, "trusted_hash"))]
    return missing if any(keys_[key] in ESSENTIAL for key in missing) else []


def _plugin_keys() -> dict[str, str]:
    """Keys of the plugin's hooks in that record (plugin, file, event, group, hook) → event."""
    file = "hooks/assets/codex/plugin/hooks.json"
    events = json.loads(asset(NAME, "plugin", "hooks.json"))["hooks"]
    return {f"{PLUGIN}:{file}:{_snake(event)}:0:0": event for event in events}


def _snake(event: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in event).lstrip("_")


def keys(path: str, data: bytes | None) -> dict[str, str]:
    """Keys of our hooks in Codex's record of trust (file, event, group, hook) → event."""
    if data is None:
        return {}
    listed = jsontext.find(jsontext.parse(data.decode("utf-8")), ("hooks",))
    found: dict[str, str] = {}
    if listed is None or listed.kind != "object":
        return found
    for event, groups_ in zip(listed.names, listed.nodes, strict=True):
        for number, group in enumerate(groups_.nodes):
            inner = jsontext.find(group, ("hooks",))
            for index, hook in enumerate(inner.nodes if inner else ()):
                command = jsontext.find(hook, ("command",))
                if command is not None and is_ours(command.value):
                    found[f"{os.path.realpath(path)}:{_snake(event)}:{number}:{index}"] = event
    return found
