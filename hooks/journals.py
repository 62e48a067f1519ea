"""The newest entries of a project's journals, read as a hook has to: files only, and little.

``sinks.journal_format`` reads journals whole and exactly. This one serves a process that an
agent waits for, so it splits lines by hand and looks at the ends of the last files only.
"""

from __future__ import annotations

import os

#: Days with entries that are looked at.
DAYS = 2
#: Bytes read from the end of one journal: more than is ever shown.
MAX_TAIL_BYTES = 64 * 1024
#: Files that are opened at the most, so that a folder of empty ones costs no more.
MAX_FILES = 40
#: Names in the folder that are looked at, at the most.
MAX_NAMES = 20_000


class Recent:
    """One entry of a journal.

    Args:
        day: ``YYYY-MM-DD``.
        heading: Its heading's text, for instance ``14:47``.
        text: What stands below it, without comments.
        turn: The turn that its anchor names; empty without one.
    """

    __slots__ = ("day", "heading", "text", "turn")

    def __init__(self, day: str, heading: str, text: str, turn: str = "") -> None:
        self.day = day
        self.heading = heading
        self.text = text
        self.turn = turn


def journal_day(name: str) -> str:
    """The day of a journal by its name (``2026-03-05.md``, ``2026-03-05.host.md``), or empty."""
    day, rest = name[:10], name[10:]
    if not rest.lower().endswith((".md", ".markdown")) or rest[0] not in ". (":
        return ""
    year, month, date = day[:4], day[5:7], day[8:]
    if day[4:5] + day[7:8] != "--" or not (year + month + date).isascii():
        return ""
    if not (year + month + date).isdigit() or not 1 <= int(month) <= 12:
        return ""
    return day if 1 <= int(date) <= 31 else ""


def journals(memory_dir: str) -> list[tuple[str, str]]:
    """``(day, path)`` of the date-named files, newest day first; none where there is no folder."""
    found: list[tuple[str, str]] = []
    try:
        with os.scandir(memory_dir) as entries:
            for number, entry in enumerate(entries):
                if number >= MAX_NAMES:
                    break
                day = journal_day(entry.name)
                if day and entry.is_file():
                    found.append((day, entry.path))
    except OSError:
        return []  # no memory yet, or one that is not ours to read
    # Within a day by name, so that the order is the same each time.
    found.sort(key=lambda item: item[1])
    found.sort(key=lambda item: item[0], reverse=True)
    return found


def recent(memory_dir: str, days: int = DAYS) -> list[Recent]:
    """The entries of the last days that have any, oldest first.

    Args:
        memory_dir: The folder of the journals.
        days: How many days.
    """
    found: dict[str, list[Recent]] = {}
    for day, path in journals(memory_dir)[:MAX_FILES]:
        if day not in found and len(found) == days:
            break
        entries = read_entries(path, day)
        if entries:
            found.setdefault(day, []).extend(entries)
    return [entry for day in sorted(found) for entry in found[day]]


def read_entries(path: str, day: str) -> list[Recent]:
    """The entries at the end of one journal, in the file's order.

    A file that cannot be read has none: a hook goes on, and indexing names the fault.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        size = os.fstat(descriptor).st_size
        start = max(0, size - MAX_TAIL_BYTES)
        text = _as_text(os.pread(descriptor, MAX_TAIL_BYTES, start))
        # The cut may lie inside a fence or an entry: begin at the first heading behind it.
        at = text.find("\n### ") if start else -1
        if start and at < 0:
            # One note as long as all that is read: what stands above it, and its beginning.
            text = _as_text(os.pread(descriptor, MAX_TAIL_BYTES, 0))
    except OSError:
        return []
    finally:
        os.close(descriptor)
    return entries_of(text[at + 1 :], day)


def _as_text(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")


def entries_of(text: str, day: str) -> list[Recent]:
    """The sections at third-level headings that hold anything but comments."""
    found: list[Recent] = []
    heading: str | None = None
    lines: list[str] = []
    fence = ""
    in_comment = False
    turn = ""

    def finish() -> None:
        body = "\n".join(lines).strip("\n").rstrip()
        if heading is not None and body.strip():
            found.append(Recent(day, heading, body, turn))

    for line in text.split("\n"):
        start = line.lstrip(" ")
        if in_comment:
            in_comment = "-->" not in line
            continue
        if fence:
            if start.startswith(fence) and not start.strip("`~ \t"):
                fence = ""
        elif start.startswith(("```", "~~~")):
            fence = start[:3]
        elif line.startswith("### "):
            finish()
            heading, lines, turn = line[4:].strip(), [], ""
            continue
        elif line.startswith(("# ", "## ")):
            finish()
            heading, lines, turn = None, [], ""
            continue
        elif start.startswith("<!--"):
            in_comment = "-->" not in start
            turn = turn or turn_of(start)
            continue
        lines.append(line)
    finish()
    return found


def turn_of(comment: str) -> str:
    """The turn's id in an anchor (``<!-- session:… turn:… … -->``), or empty."""
    for word in comment.split():
        if word.startswith("turn:"):
            if "%" not in word:
                return word[5:]
            from urllib.parse import unquote

            return unquote(word[5:])
    return ""
