"""Keeping texts within their bounds, and saying what was left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

#: A tool's input other than a command is kept to this many characters.
MAX_INPUT_CHARS = 2_000
#: One value in it is kept to this many.
MAX_VALUE_CHARS = 400
#: Entries of one list or object in a tool's input that are kept.
MAX_ENTRIES = 40
#: Texts with a limit below this are cut at their end, without a mark.
_SHORT = 200
#: How deep a tool's input is followed.
MAX_DEPTH = 6


def well_formed(text: str) -> str:
    """A text that can be written as UTF-8: halves of surrogate pairs joined or replaced."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def trim(text: str, limit: int, *, left_out: int = 0) -> tuple[str, int]:
    """A text cut in its middle, with a mark there.

    Args:
        text: Any text.
        limit: Characters that the result has at most.
        left_out: Characters that are missing at the end of the text already.

    Returns:
        The text, and how many characters are missing in it.
    """
    if len(text) <= limit:
        return text, left_out
    if limit < _SHORT:
        return text[: limit - 1] + "…", len(text) - limit + 1 + left_out
    room = limit - len(_mark(len(text) + left_out))
    tail = room // 3
    missing = len(text) - room + left_out
    return text[: room - tail] + _mark(missing) + text[len(text) - tail :], missing


def _mark(missing: int) -> str:
    return f"\n… [{missing} characters left out] …\n"


def compact_input(value: object, clean: Callable[[str], str], whole: frozenset[str]) -> str:
    """A tool's input as one line of JSON within ``MAX_INPUT_CHARS``.

    Args:
        value: The input as the agent wrote it.
        clean: Applied to every string before it is cut.
        whole: Keys whose strings are not cut (a command).
    """
    for limit in (MAX_VALUE_CHARS, MAX_VALUE_CHARS // 8):
        small = _shrink(value, clean, whole, limit, MAX_DEPTH)
        text = json.dumps(small, ensure_ascii=False, separators=(", ", ": "))
        if len(text) <= MAX_INPUT_CHARS or (isinstance(value, dict) and whole & value.keys()):
            return text
    return trim(text, MAX_INPUT_CHARS)[0]


def _shrink(
    value: object, clean: Callable[[str], str], whole: frozenset[str], limit: int, depth: int
) -> Any:
    if isinstance(value, str):
        return trim(clean(value), limit)[0]
    if isinstance(value, dict):
        if depth == 0:
            return "{…}"
        small: dict[str, Any] = {}
        for key, entry in list(value.items())[:MAX_ENTRIES]:
            if key in whole and isinstance(entry, str):
                small[key] = clean(entry)
            else:
                small[trim(clean(str(key)), 80)[0]] = _shrink(entry, clean, whole, limit, depth - 1)
        if len(value) > MAX_ENTRIES:
            small["…"] = f"{len(value) - MAX_ENTRIES} more"
        return small
    if isinstance(value, list):
        if depth == 0:
            return "[…]"
        entries = [_shrink(entry, clean, whole, limit, depth - 1) for entry in value[:MAX_ENTRIES]]
        if len(value) > MAX_ENTRIES:
            entries.append(f"… {len(value) - MAX_ENTRIES} more")
        return entries
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**40:
        return "(a very long number)"
    return value
