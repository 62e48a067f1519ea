"""Hooks in the JSON that Claude Code and Codex read: ours put in, ours taken out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memsearch.config.errors import MemsearchError
from memsearch.hooks.install import jsontext
from memsearch.hooks.install.files import Edit
from memsearch.hooks.install.jsontext import Node

#: Event → the group that is added to its list.
Groups = Mapping[str, dict[str, object]]


def hooks_edit(path: str, groups: Groups, is_ours: Callable[[str], bool]) -> Edit:
    """The edit of a file with a ``hooks`` object.

    Args:
        path: The file.
        groups: What is added.
        is_ours: Whether a hook's command is one of ours.
    """

    def add(old: bytes | None) -> bytes:
        text = _text(old)
        for event, group in groups.items():
            text = jsontext.append_item(text, ("hooks", event), group)
        return text.encode("utf-8")

    def remove(now: bytes) -> bytes | None:
        text = without(now.decode("utf-8"), is_ours)
        return None if not jsontext.parse(text).nodes and _was_made(text) else text.encode("utf-8")

    return Edit(path, add, remove)


def _text(old: bytes | None) -> str:
    text = "" if old is None else old.decode("utf-8")
    return text if text.strip("\ufeff \t\r\n") else "{}\n"


def _was_made(text: str) -> bool:
    # An empty object is what a file of ours comes down to; one with a comment is somebody's.
    return text.split() in (["{}"], ["{", "}"])


def without(text: str, is_ours: Callable[[str], bool]) -> str:
    """A text without the hooks whose command is ours."""
    try:
        root = jsontext.find(jsontext.parse(text), ("hooks",))
    except MemsearchError:
        return text  # nothing of ours can be told apart in it
    for event in dict.fromkeys(root.names if root and root.kind == "object" else ()):
        text = _without_event(text, event, is_ours)
    return text


def _without_event(text: str, event: str, is_ours: Callable[[str], bool]) -> str:
    path = ("hooks", event)
    removed = False
    while (place := _ours_in(jsontext.find(jsontext.parse(text), path), is_ours)) is not None:
        group, index, alone = place
        if alone:
            text = jsontext.remove_item(text, path, group)
        else:
            text = _cut_inner(text, path, group, index)
        removed = True
    return jsontext.prune(text, path) if removed else text


def _ours_in(groups: Node | None, is_ours: Callable[[str], bool]) -> tuple[int, int, bool] | None:
    """The first hook of ours: its group, its place in it, and whether it is alone there."""
    if groups is None or groups.kind != "array":
        return None
    for number, group in enumerate(groups.nodes):
        hooks = jsontext.find(group, ("hooks",))
        if hooks is None or hooks.kind != "array":
            continue
        for index, hook in enumerate(hooks.nodes):
            command = jsontext.find(hook, ("command",))
            if command is not None and command.kind == "string" and is_ours(command.value):
                return number, index, len(hooks.nodes) == 1
    return None


def _cut_inner(text: str, path: tuple[str, ...], group: int, index: int) -> str:
    """A text without one hook of a group that holds others."""
    groups = jsontext.find(jsontext.parse(text), path)
    assert groups is not None
    start, end = groups.nodes[group].start, groups.nodes[group].end
    inner = jsontext.remove_item(text[start:end], ("hooks",), index)
    return text[:start] + inner + text[end:]


def ours(text: bytes | None, is_ours: Callable[[str], bool]) -> set[str]:
    """The events for which a file has a hook of ours."""
    if text is None:
        return set()
    try:
        root = jsontext.find(jsontext.parse(text.decode("utf-8")), ("hooks",))
    except (MemsearchError, UnicodeDecodeError):
        return set()
    if root is None or root.kind != "object":
        return set()
    return {
        event
        for event, groups in zip(root.names, root.nodes, strict=True)
        if _ours_in(groups, is_ours) is not None
    }
