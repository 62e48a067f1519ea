"""The journal's format: names of files, entries as text and back. No I/O; see docs/journal.md."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date

from memsearch.sinks.anchors import anchors_in, format_anchor, parse_anchor, without_comments
from memsearch.sinks.sections import ENTRY_HEADING, SESSION_HEADING, sections
from memsearch.sinks.types import Anchor, Entry, Section

#: Longest suffix of a journal's name, in characters.
MAX_SUFFIX_CHARS = 64

# "2026-03-05.md", with a writer's suffix after a dot, or with what sync programs add to the
# name of a copy: " (conflicted copy)", " 2", "(1)", ".sync-conflict-…".
_NAME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[. (].*)?\.(?:md|markdown)", re.IGNORECASE)
_TITLE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9])")

_BULLET = re.compile(r" {0,3}[-*+][ \t]+(.*)", re.DOTALL)
#: Marks that a summariser may have put before a bullet already.
_LEADING_MARK = re.compile(r"(?:[-*+•–](?:[ \t]+|\Z))+")
# All that ends a line for somebody: Python's splitlines, JavaScript, terminals.
_LINE_ENDS = re.compile(r"[ \t]*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+[ \t]*")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One entry of a journal as it stands in the file now, whoever edited it.

    Attributes:
        day: Of the file; None when neither its name nor its title tells.
        session_time: ``HH:MM`` of the session heading above it, or empty.
        time: ``HH:MM`` of its own heading, or empty when a human changed it.
        heading: Its heading's text.
        anchor: None where there is none any more.
        bullets: Its bullets without the mark, each on one line.
        text: All of its text below the heading, without comments.
        line: 1-based line of its heading.
        end_line: 1-based last line that is not blank.
    """

    day: date | None
    session_time: str
    time: str
    heading: str
    anchor: Anchor | None
    bullets: tuple[str, ...]
    text: str
    line: int
    end_line: int


def journal_name(day: date, suffix: str = "") -> str:
    """The name of a day's file: ``2026-03-05.md`` or ``2026-03-05.suffix.md``.

    Args:
        day: Local day of the turns.
        suffix: Names the writer in folders that several machines sync. What cannot stand in
            a file name becomes ``-``.
    """
    safe = re.sub(r"[^\w.-]+", "-", suffix)[:MAX_SUFFIX_CHARS].strip(".-")
    return f"{day.isoformat()}.{safe}.md" if safe else f"{day.isoformat()}.md"


def journal_day(filename: str) -> date | None:
    """The day of a journal by its file's name, or None when the file is no journal.

    Args:
        filename: A name or a path. Suffixes and the copies that sync programs make count.
    """
    match = _NAME.fullmatch(re.split(r"[/\\]", filename)[-1])
    if match is None:
        return None
    try:
        return date.fromisoformat(match[1])
    except ValueError:
        return None


def clean_bullet(text: str) -> str:
    """A bullet's text as it may stand in a journal: one line that cannot pose as anything else.

    Line ends become a blank and control characters go. ``<!--`` and ``-->`` get a backslash
    inside, which Markdown shows as nothing: else a text that quotes an anchor would *be* one.
    A leading ``#`` gets one too, for ``- # x`` is a heading inside a list. The mark ``- `` is
    not part of it.
    """
    text = _CONTROL.sub("", _LINE_ENDS.sub(" ", text)).strip()
    mark = _LEADING_MARK.match(text)
    text = text[mark.end() :] if mark else text
    text = text.replace("<!--", "<\\!--").replace("-->", "--\\>")
    return f"\\{text}" if text.startswith("#") else text


def entry_lines(entry: Entry) -> str:
    """An entry as it is written: its heading, its anchor, its bullets.

    The anchor names the entry's session and turn whatever ``entry.anchor`` holds, since that
    is how the entry is found again.
    """
    anchor = replace(entry.anchor, session=entry.session, turn=entry.turn)
    bullets = [bullet for text in entry.bullets if (bullet := clean_bullet(text))]
    lines = [f"### {entry.time}", format_anchor(anchor), *(f"- {bullet}" for bullet in bullets)]
    return "\n".join(lines) + "\n"


def appended_text(text: str, entry: Entry) -> str:
    """What an append adds to a file that holds ``text``.

    A new file gets its title; a file without a final newline gets one first. The session
    heading comes with the first entry of a session, and again when the file's last section
    belongs to another session or to a human.
    """
    block = entry_lines(entry)
    if not _continues(text, entry.session):
        block = f"## Session {entry.time}\n\n{block}"
    if not text.strip("\ufeff \t\r\n"):
        return ("\n" if text.strip("\ufeff\n") else "") + f"# {entry.day.isoformat()}\n\n{block}"
    if text.endswith(("\n\n", "\n\r\n")):
        return block
    return ("\n" if text.endswith("\n") else "\n\n") + block


def parse(text: str, day: date | None = None) -> list[JournalEntry]:
    """The entries of a journal, in the file's order.

    An entry is a ``### HH:MM`` section, or any section with an anchor: a human may have
    given it another heading.

    Args:
        text: A journal's text.
        day: The day that the file's name gives; without it the title's counts.
    """
    entries: list[JournalEntry] = []
    session_time = ""
    for section in sections(text, journal=True):
        if section.level == 1 and _TITLE.match(section.heading) and day is None:
            day = _day_of(section.heading)
        if section.level <= 2:
            is_session = section.level == 2 and SESSION_HEADING.match(section.heading)
            session_time = section.heading.split()[1][:5] if is_session else ""
        anchor = section_anchor(section)
        timed = section.level == 3 and ENTRY_HEADING.match(section.heading)
        if anchor is None and not timed:
            continue
        entries.append(
            JournalEntry(
                day=day,
                session_time=session_time,
                time=section.heading[:5] if timed else "",
                heading=section.heading,
                anchor=anchor,
                bullets=_bullets(section.body),
                text=without_comments(section.body).strip(),
                line=section.line,
                end_line=section.end_line,
            )
        )
    return entries


def section_anchor(section: Section) -> Anchor | None:
    """The anchor of a section: that of its first line which begins with one."""
    for line in section.body.split("\n"):
        if line.lstrip().startswith("<!--"):
            found = anchors_in(line, limit=1)
            if found:
                return found[0]
    return None


def _continues(text: str, session: str) -> bool:
    """Would an entry at the end of this text stand under its own session's heading?"""
    # Only what follows the last heading of level 1 or 2 matters; reading a whole day's file
    # for each append would be quadratic over the day.
    start = max(text.rfind("\n## "), text.rfind("\n# "))
    inside = sections(text[start + 1 :], journal=True)
    if not inside or inside[0].level != 2 or not SESSION_HEADING.match(inside[0].heading):
        return False
    anchors = [anchor for section in inside if (anchor := section_anchor(section))]
    return bool(anchors) and anchors[-1].session == session


def _bullets(body: str) -> tuple[str, ...]:
    """Top-level bullets; indented lines and nested bullets belong to the one above."""
    bullets: list[str] = []
    for line in body.split("\n"):
        match = _BULLET.fullmatch(line)
        if match and not line.startswith(" "):
            bullets.append(match[1].strip())
        elif bullets and line.strip() and line[:1] in (" ", "\t"):
            bullets[-1] = f"{bullets[-1]} {line.strip()}"
    return tuple(bullets)


def _day_of(heading: str) -> date | None:
    try:
        return date.fromisoformat(heading[:10])
    except ValueError:
        return None


def is_anchor_line(line: str, session: str, turn: str) -> bool:
    """Is this line of a journal the anchor of that turn?"""
    if not line.lstrip().startswith("<!--"):
        return False
    anchor = parse_anchor(line)
    return anchor is not None and anchor.session == session and anchor.turn == turn
