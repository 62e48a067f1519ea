"""Digests: the format of ``digest-YYYY-MM.md``, and what of a journal goes into one. No I/O.

A digest holds one block for each journal behind it::

    ## 2026-02-03

    <!-- digest of 2026-02-03.md -->
    - 14:47 User asked about the authentication flow

    ## What I think of it
    Word for word, since a person wrote it.

    <!-- end of 2026-02-03.md: 5f0c1a2b 77aa01c3 -->

The marks at the end name every part of the journal that the block stands for, by a hash of its
text: by them a second run knows what it need not add again, and a check that nothing is missing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from memsearch.sinks.anchors import decode_value, encode_value, without_comments
from memsearch.sinks.journal_format import JournalEntry, parse
from memsearch.sinks.sections import SESSION_HEADING, sections
from memsearch.sinks.types import Section

#: Hex digits of a part's mark.
MARK_DIGITS = 8
#: Marks on one line; a longer line would be cut when the digest is indexed.
MARKS_PER_LINE = 12

_TITLE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_BULLET = re.compile(r"[-*+][ \t]+\S")
_BEGIN = re.compile(r"<!-- digest of (\S+) -->")
_END = re.compile(rf"<!-- end of (\S+):((?: [0-9a-f]{{{MARK_DIGITS}}})*) -->")
_DAY_HEADING = re.compile(r"## [0-9]{4}-[0-9]{2}-[0-9]{2}[ \t]*")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a journal.

    Attributes:
        kind: ``entry``: memsearch wrote it, and it may be shortened. ``own``: a person wrote or
            changed it, and it is kept word for word.
        mark: A hash of its text.
        text: Its lines as they stand in the journal.
        time: ``HH:MM`` of an entry, or empty.
        bullets: Of an entry.
        platform: The agent of an entry, or empty.
    """

    kind: Literal["entry", "own"]
    mark: str
    text: str
    time: str = ""
    bullets: tuple[str, ...] = ()
    platform: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """What a digest says of one journal.

    ``start`` and ``end`` are 0-based lines of the digest, ``end`` exclusive.
    """

    name: str
    start: int
    end: int
    marks: frozenset[str]


def parts_of(text: str, day: str, is_edited: Callable[[JournalEntry], bool]) -> tuple[Part, ...]:
    """The parts of a journal that say something, in its order.

    Left out are the title, the headings of sessions, and what is empty.

    Args:
        text: As ``documents.decode`` gives it.
        day: The journal's, ``YYYY-MM-DD``.
        is_edited: Whether an entry is known to be no longer what memsearch wrote.
    """
    lines = text.split("\n")
    entries = {entry.line: entry for entry in parse(text)}
    found = []
    for section in sections(text, journal=True):
        own = "\n".join(lines[section.line - 1 : section.end_line]).rstrip()
        entry = entries.get(section.line)
        if entry is not None and _is_ours(entry, section) and not is_edited(entry):
            assert entry.anchor is not None
            found.append(
                Part(
                    "entry",
                    mark_of(day, own),
                    own,
                    entry.time or entry.session_time,
                    entry.bullets,
                    entry.anchor.platform,
                )
            )
        elif own.strip() and not _is_frame(section):
            found.append(Part("own", mark_of(day, own), own))
    return tuple(found)


def mark_of(day: str, text: str) -> str:
    """The mark of a part of a day's journals: blanks at the ends of its lines do not count."""
    body = "\n".join(line.rstrip() for line in text.strip().split("\n"))
    return hashlib.sha256(f"{day}\n{body}".encode("utf-8", "replace")).hexdigest()[:MARK_DIGITS]


def _is_ours(entry: JournalEntry, section: Section) -> bool:
    """Does an entry look as an append left it: a time, an anchor, and nothing but bullets?"""
    if entry.anchor is None or not entry.anchor.turn or not entry.time or not entry.bullets:
        return False
    lines = [line for line in without_comments(section.body).split("\n") if line.strip()]
    return entry.heading == entry.time and all(_BULLET.match(line) for line in lines)


def _is_frame(section: Section) -> bool:
    """A title or a session's heading with nothing below it."""
    if section.body.strip():
        return False
    if section.level == 1:
        return _TITLE.fullmatch(section.heading.strip()) is not None
    return section.level == 2 and SESSION_HEADING.fullmatch(section.heading.strip()) is not None


def digest_name(month: str) -> str:
    """The name of a month's digest; ``month`` is ``YYYY-MM``."""
    return f"digest-{month}.md"


def block_of(name: str, day: str, notes: Sequence[str], parts: Iterable[Part]) -> str:
    """The text of a block, with a final newline.

    Args:
        name: The journal's file name, where it is from now on.
        day: ``YYYY-MM-DD``.
        notes: What is said of its entries, one line each, without a mark.
        parts: All parts that it stands for; those of people follow the notes word for word.
    """
    parts = list(parts)
    encoded = encode_value(name)
    lines = [f"## {day}", "", f"<!-- digest of {encoded} -->"]
    lines += [f"- {note}" for note in notes]
    for part in parts:
        if part.kind == "own":
            lines += ["", closed(part.text)]
    lines.append("")
    marks = list(dict.fromkeys(part.mark for part in parts))
    for start in range(0, len(marks), MARKS_PER_LINE):
        lines.append(
            f"<!-- end of {encoded}: {' '.join(marks[start : start + MARKS_PER_LINE])} -->"
        )
    return "\n".join(lines) + "\n"


def addition(text: str, month: str, blocks: Sequence[str]) -> str:
    """What is added at the end of a digest; nothing of what is there is touched.

    Args:
        text: The digest as it is; empty for a new one.
        month: ``YYYY-MM``.
        blocks: From ``block_of``.
    """
    if not blocks:
        return ""
    head = "" if text.strip("\ufeff \t\r\n") else f"# Digest of {month}\n"
    if text and not text.endswith("\n"):
        head = "\n" + head
    return head + "".join(f"\n{block}" for block in blocks)


def blocks_in(text: str) -> list[Block]:
    """The blocks of a digest, in its order; what stands between them is a person's."""
    lines = text.split("\n")
    found: list[Block] = []
    begun: tuple[str, int] | None = None
    for number, line in enumerate(lines):
        line = line.rstrip()
        if match := _BEGIN.fullmatch(line):
            begun = (match[1], _heading_above(lines, number))
        elif match := _END.fullmatch(line):
            marks = frozenset(match[2].split())
            last = found[-1] if found else None
            if begun is not None and begun[0] == match[1]:
                found.append(Block(decode_value(match[1]), begun[1], number + 1, marks))
                begun = None
            elif last is not None and last.end == number and last.name == decode_value(match[1]):
                found[-1] = Block(last.name, last.start, number + 1, last.marks | marks)
    return found


def marks_in(text: str) -> frozenset[str]:
    """The marks of every part that a digest stands for, whole or not any more."""
    return frozenset(
        mark
        for line in text.split("\n")
        if (match := _END.fullmatch(line.rstrip()))
        for mark in match[2].split()
    )


def notes_in(text: str, block: Block) -> list[str]:
    """The notes of a block, without their mark."""
    lines = text.split("\n")[block.start : block.end]
    return [line[2:] for line in lines if line.startswith("- ") and line[2:].strip()]


def without_blocks(text: str, blocks: Iterable[Block]) -> str:
    """A digest without some of its blocks; everything else as it is.

    The blank lines behind a block go with it.
    """
    lines = text.split("\n")
    gone: set[int] = set()
    for block in blocks:
        end = block.end
        while end < len(lines) - 1 and not lines[end].strip():
            end += 1
        gone.update(range(block.start, end))
    return "\n".join(line for number, line in enumerate(lines) if number not in gone)


def closed(text: str) -> str:
    """A text whose last code fence is closed, so that nothing behind it is taken for code."""
    probe = "fence-probe"
    if _ends_outside(text, probe):
        return text
    longest = max((len(run) for run in re.findall(r"`{3,}|~{3,}", text)), default=3)
    for fence in (mark * size for size in range(3, longest + 1) for mark in "`~"):
        if _ends_outside(f"{text}\n{fence}", probe):
            return f"{text}\n{fence}"
    return text


def _ends_outside(text: str, probe: str) -> bool:
    return sections(f"{text}\n# {probe}")[-1].heading == probe


def _heading_above(lines: Sequence[str], number: int) -> int:
    """The line of the day's heading right above a block's first mark, else the mark's own."""
    above = number - 1
    while above >= 0 and not lines[above].strip():
        above -= 1
    return above if above >= 0 and _DAY_HEADING.fullmatch(lines[above]) else number
