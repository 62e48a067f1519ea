"""A conversation as a person reads it, and the check of where it may be read from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import untilde, user_home
from memsearch.sources.base import Item, Turn
from memsearch.sources.registry import get, platforms

#: Columns that an indented block is moved to the right.
_INDENT = "    "
#: The mark at the turn that was asked for.
_MARK = ">>>"
# What would steer a terminal: every control character but newline and tab.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def render_conversation(turns: Sequence[Turn], highlight: str | None = None) -> str:
    """Turns as plain text: who said what, commands whole, outputs as they were trimmed.

    Args:
        turns: Oldest first.
        highlight: The id (or an alias) of the turn to mark; None marks none.

    Returns:
        Text that ends in a newline, without control characters. Times are local.
    """
    return "\n".join(_turn(turn, _is(turn, highlight)) for turn in turns)


def conversation_dict(turns: Sequence[Turn], highlight: str | None = None) -> dict[str, Any]:
    """The same as a value that can be written as JSON; times are UTC in ISO 8601."""
    return {
        "turns": [
            {
                "platform": turn.platform,
                "session": turn.session,
                "turn": turn.id,
                "at": turn.at.isoformat(),
                "cwd": turn.cwd,
                "state": turn.state,
                "asked": _is(turn, highlight),
                "private": turn.private,
                "truncated": turn.truncated,
                "anchor": dict(turn.anchor),
                "items": [_item_dict(item) for item in turn.items],
            }
            for turn in turns
        ]
    }


def confine(path: str, environ: Mapping[str, str], roots: Iterable[str] | None = None) -> str:
    """The real path of a transcript, if it lies under a folder where agents keep theirs.

    An anchor can stand in a repository that came from anywhere, so what it names is
    checked by its real path: neither ``..`` nor a symbolic link leads out.

    Args:
        path: Absolute, or beginning with ``~``.
        environ: Where ``HOME`` and the agents' folders are looked up.
        roots: The folders that are allowed; None: those of all known agents.

    Raises:
        MemsearchError: ``PERMISSION`` when the path lies outside of them.
    """
    if roots is None:
        roots = [root for name in platforms() for root in get(name).roots(environ)]
    allowed = [os.path.realpath(root) for root in roots]
    if "\x00" not in path:
        full = untilde(path, user_home(environ))
        real = os.path.realpath(full)
        if os.path.isabs(full) and any(real.startswith(root.rstrip("/") + "/") for root in allowed):
            return real
    raise MemsearchError(
        f"{path!r} is no transcript of a known agent",
        kind=ErrorClass.PERMISSION,
        hint=f"transcripts are read only under {', '.join(allowed) or 'no folder'}",
    )


def _is(turn: Turn, name: str | None) -> bool:
    return name is not None and turn.answers_to(name)


def _turn(turn: Turn, asked: bool) -> str:
    local = turn.at.astimezone()
    head = f"[{local:%Y-%m-%d %H:%M:%S}] turn {turn.id} ({turn.state})"
    parts = [f"{_MARK} {head}" if asked else head]
    agent = get(turn.platform).display_name if turn.platform in platforms() else turn.platform
    if turn.private:
        parts.append("(private)")
    parts += [_item(item, agent) for item in turn.items]
    if turn.truncated:
        parts.append(f"({turn.truncated} characters of this turn are left out)")
    return _plain("\n".join(parts)) + "\n"


def _item(item: Item, agent: str) -> str:
    match item.kind:
        case "user":
            return f"User:\n{_indented(item.text)}"
        case "assistant":
            return f"{agent}:\n{_indented(item.text)}"
        case "tool":
            failed = " (failed)" if item.failed else ""
            asked = f"Tool {item.name}{failed}:\n{_indented(item.text)}"
            return f"{asked}\n  Output:\n{_indented(item.output)}" if item.output else asked
        case "note":
            return f"({item.text})"


def _item_dict(item: Item) -> dict[str, Any]:
    fields: dict[str, Any] = {"kind": item.kind, "text": item.text}
    if item.kind == "tool":
        fields |= {"name": item.name, "output": item.output, "failed": item.failed}
    return fields


def _indented(text: str) -> str:
    return "\n".join(_INDENT + line if line else "" for line in text.split("\n"))


def _plain(text: str) -> str:
    return _CONTROLS.sub("", text.replace("\r\n", "\n"))
