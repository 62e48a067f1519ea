"""Keeping texts within their bounds, and saying what was left out.

A cut may go through a secret, or between a secret and the name that tells it. What is left of
it would be found by nobody, so the secrets near a cut are taken out before it is made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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
#: Characters on the far side of a cut that are looked at for the rest of a secret.
EDGE_CHARS = 2_000
#: Stands where a reader of lines had to cut a string: what came behind it was never seen.
TORN = "\0[torn]\0"

#: Takes the secrets out of a text; it is the pipeline's, and given by ``redacting``.
_redactor: ContextVar[Callable[[str], str] | None] = ContextVar("redactor", default=None)


@contextmanager
def redacting(redact: Callable[[str], str]) -> Iterator[None]:
    """While it lasts, texts of this thread are cut so that no part of a secret is left.

    Args:
        redact: Takes the secrets out of a text. It is called with what lies around a cut.
    """
    token = _redactor.set(redact)
    try:
        yield
    finally:
        _redactor.reset(token)


def well_formed(text: str) -> str:
    """A text that can be written as UTF-8: halves of surrogate pairs joined or replaced."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def trim(text: str, limit: int, *, left_out: int = 0, before: str = "") -> tuple[str, int]:
    """A text cut in its middle, with a mark there.

    Args:
        text: Any text.
        limit: Characters that the result has at most.
        left_out: Characters that are missing at the end of the text already.
        before: What stands before the text, where that tells what it is.

    Returns:
        The text, and how many characters are missing in it.
    """
    return Clipped(text, limit, before=before).finish(left_out)


def beginning(text: str, limit: int) -> str:
    """The first ``limit`` characters of a text, or less where a secret lies across the cut."""
    text = _whole(text)
    return text if len(text) <= limit else _start(text[: limit + EDGE_CHARS], limit, "")


class Clipped:
    """A text of which no more is held than the cut of ``trim`` needs. It is made by ``finish``.

    A turn may have a hundred thousand outputs, of which a hundred are kept: only those are
    looked through for secrets.

    Args:
        text: Any text.
        limit: Characters that the result has at most.
        before: As in ``trim``.
    """

    __slots__ = ("_before", "_end", "_limit", "_start", "length")

    def __init__(self, text: str, limit: int, *, before: str = "") -> None:
        text = _whole(text)
        #: Characters of the text.
        self.length = len(text)
        self._limit = limit
        self._before = before
        tail = limit // 3 if limit >= _SHORT else 0
        self._start = text if self.is_whole else text[: limit - tail + EDGE_CHARS]
        self._end = "" if self.is_whole else text[-(tail + EDGE_CHARS) :]

    def __len__(self) -> int:
        """Characters that the result has at most."""
        return min(self.length, self._limit)

    @property
    def text(self) -> str:
        """The text, as far as it is known without looking for secrets: whole, or its start."""
        return self._start

    @property
    def is_whole(self) -> bool:
        """Whether nothing is to be left out."""
        return self.length <= self._limit

    def finish(self, left_out: int = 0) -> tuple[str, int]:
        """The text within its limit, and how many characters are missing in it."""
        if self.is_whole:
            return self._start, left_out
        if self._limit < _SHORT:
            kept = _start(self._start, self._limit - 1, self._before)
            return kept + "…", self.length - len(kept) + left_out
        room = self._limit - len(_mark(self.length + left_out))
        tail = room // 3
        first = _start(self._start, room - tail, self._before)
        last = _stop(self._end, tail)
        missing = self.length - len(first) - len(last) + left_out
        return first + _mark(missing) + last, missing


def _start(window: str, keep: int, before: str) -> str:
    """The first ``keep`` characters of a window whose end may have torn a secret."""
    redact = _redactor.get()
    clean = redact(before + window) if redact else before + window
    if clean == before + window:
        return window[:keep]
    clean = clean.removeprefix(before)
    return clean[: max(0, min(keep, len(clean) - (len(window) - keep)))]


def _stop(window: str, keep: int) -> str:
    """The last ``keep`` characters of a window whose beginning may have torn a secret."""
    redact = _redactor.get()
    clean = redact(window) if redact else window
    if clean != window:
        keep = max(0, min(keep, len(clean) - (len(window) - keep)))
    return clean[len(clean) - keep :]


def _whole(text: str) -> str:
    """A text without the places where it was torn, and what may be half of a secret there."""
    if TORN not in text:
        return text
    parts = text.split(TORN)
    torn = [_start(part, max(0, len(part) - EDGE_CHARS), "") + "…" for part in parts[:-1]]
    return "".join([*torn, parts[-1]])


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
    value: object,
    clean: Callable[[str], str],
    whole: frozenset[str],
    limit: int,
    depth: int,
    before: str = "",
) -> Any:
    if isinstance(value, str):
        return trim(clean(value), limit, before=before)[0]
    if isinstance(value, dict):
        if depth == 0:
            return "{…}"
        small: dict[str, Any] = {}
        for key, entry in list(value.items())[:MAX_ENTRIES]:
            if key in whole and isinstance(entry, str):
                small[key] = _whole(clean(entry))
            else:
                name = trim(clean(str(key)), 80)[0]
                small[name] = _shrink(entry, clean, whole, limit, depth - 1, f'"{name}": "')
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
