"""The sections of a Markdown document: where its ATX headings are, and where they are not.

Headings and fences follow CommonMark 0.31 (4.2, 4.5), read line by line in one pass; front
matter is text, never headings. In a journal a fence also ends at an entry that memsearch
itself wrote: one forgotten ``` of a human must not swallow the entries of all later turns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memsearch.sinks.anchors import parse_anchor
from memsearch.sinks.types import Section

#: Headings have one to six ``#``.
MAX_LEVEL = 6
#: A fence has at least three marks.
MIN_FENCE = 3
#: Up to this many spaces may stand before a heading or a fence; four make it code.
MAX_INDENT = 3

#: Heading of an entry in a journal: the local time of its turn.
ENTRY_HEADING = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9](?![0-9])")
#: Heading above the entries of one session.
SESSION_HEADING = re.compile(r"Session ([01][0-9]|2[0-3]):[0-5][0-9](?![0-9])")


@dataclass(frozen=True, slots=True)
class _Fence:
    mark: str
    length: int
    closes: bool  # nothing follows the marks, so it may also end a fence


def sections(text: str, *, journal: bool = False) -> list[Section]:
    """Split a document at its headings.

    Args:
        text: A document; lines end with ``\\n`` (a ``\\r`` before it counts as blank).
        journal: It is a journal: memsearch's own entries end an open fence.

    Returns:
        Every heading's section in order, also those without a body, and the text above the
        first heading (level 0, no heading) if there is any. ``end_line`` is the last line
        that is not blank; ``body`` has no blank lines at its ends.
    """
    lines = text.split("\n")
    found: list[Section] = []
    heading, level, top = "", 0, -1
    for index in _heading_lines(lines, journal):
        _close(found, lines, heading, level, top, index)
        level, heading = heading_of(lines[index]) or (0, "")
        top = index
    _close(found, lines, heading, level, top, len(lines))
    return found


def heading_of(line: str) -> tuple[int, str] | None:
    """Level and text of an ATX heading, or None when the line is none."""
    start = _indent(line)
    if start is None or not line.startswith("#", start):
        return None
    rest = line[start:].lstrip("#")
    level = len(line) - start - len(rest)
    if level > MAX_LEVEL or (rest and not rest[0].isspace()):
        return None
    title = rest.strip()
    without_marks = title.rstrip("#")
    if not without_marks or without_marks[-1].isspace():
        title = without_marks.rstrip()
    return level, title


def _close(
    found: list[Section], lines: list[str], heading: str, level: int, top: int, end: int
) -> None:
    """Add the section from its heading's index (-1: the document's top) to ``end``."""
    first, last = top + 1, end - 1
    while last >= first and not lines[last].strip():
        last -= 1
    while first <= last and not lines[first].strip():
        first += 1
    if top < 0 and first > last:
        return
    found.append(
        Section(
            heading=heading,
            level=level,
            line=(top if top >= 0 else first) + 1,
            end_line=(last if last >= first else top) + 1,
            body="\n".join(lines[first : last + 1]),
        )
    )


def _heading_lines(lines: list[str], journal: bool) -> list[int]:
    """Indices of the lines that are headings."""
    headings: list[int] = []
    opened: _Fence | None = None
    for index in range(_front_matter(lines, journal), len(lines)):
        if not lines[index].startswith(("#", "`", "~", " ")):
            continue  # nearly all lines: neither heading nor fence
        if opened and not (journal and _is_ours(lines, index)):
            fence = _fence_of(lines[index])
            if fence and _ends(fence, opened):
                opened = None
            continue
        opened = _fence_of(lines[index])
        if heading_of(lines[index]):
            headings.append(index)
    return headings


def _ends(fence: _Fence, opened: _Fence) -> bool:
    return fence.closes and fence.mark == opened.mark and fence.length >= opened.length


def _fence_of(line: str) -> _Fence | None:
    start = _indent(line)
    if start is None or line[start : start + 1] not in ("`", "~"):
        return None
    mark = line[start]
    rest = line[start:].lstrip(mark)
    length = len(line) - start - len(rest)
    if length < MIN_FENCE or (mark == "`" and "`" in rest):
        return None
    return _Fence(mark, length, not rest.strip())


def _indent(line: str) -> int | None:
    """How many spaces stand before the line's text; None when too many for a mark."""
    start = 0
    while start <= MAX_INDENT and line.startswith(" ", start):
        start += 1
    return start if start <= MAX_INDENT else None


def _front_matter(lines: list[str], journal: bool) -> int:
    """How many lines at the top are YAML front matter.

    The line after ``---`` must look like YAML: a document may also begin with a rule.
    """
    if len(lines) < 3 or lines[0].rstrip() != "---":
        return 0
    if ":" not in lines[1] and not lines[1].startswith("#"):
        return 0
    for index in range(1, len(lines)):
        if lines[index].rstrip() in ("---", "..."):
            return index + 1
        if journal and _is_ours(lines, index):
            return 0
    return 0


def _is_ours(lines: list[str], index: int) -> bool:
    """Does memsearch's own entry, or the session heading above one, begin here?"""
    heading = heading_of(lines[index])
    if heading is None:
        return False
    level, title = heading
    if level == 2 and SESSION_HEADING.match(title):
        return any(
            (heading_of(line) or (0, ""))[0] == 3 and _is_ours(lines, index + 1 + offset)
            for offset, line in enumerate(lines[index + 1 : index + 3])
        )
    return (
        level == 3
        and ENTRY_HEADING.match(title) is not None
        and index + 1 < len(lines)
        and lines[index + 1].startswith("<!--")
        and parse_anchor(lines[index + 1]) is not None
    )
