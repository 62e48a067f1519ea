"""What was remembered, as the journals have it: no index is asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from memsearch.config.errors import MemsearchError
from memsearch.config.paths import Home
from memsearch.config.project import source_of
from memsearch.config.settings import load_at
from memsearch.recall import origin
from memsearch.recall.dates import local_today
from memsearch.recall.expand import anchor_dict
from memsearch.recall.filters import day_in, make_filters
from memsearch.recall.origin import Written, turns_of
from memsearch.sinks.documents import read_document
from memsearch.sinks.journal import JournalEntry, journal_day, parse


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry, the journal it stands in, as the index names it, and whether it is foreign."""

    source: str
    entry: JournalEntry
    foreign: bool = False

    @property
    def day(self) -> str:
        """``YYYY-MM-DD``."""
        assert self.entry.day is not None  # journals without a day are not listed
        return self.entry.day.isoformat()

    @property
    def platform(self) -> str:
        """The agent, or empty where the entry has no anchor."""
        return self.entry.anchor.platform if self.entry.anchor else ""

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        entry = self.entry
        return {
            "day": self.day,
            "time": entry.time,
            "session_time": entry.session_time,
            "heading": entry.heading,
            "platform": self.platform,
            "session": entry.anchor.session if entry.anchor else "",
            "turn": entry.anchor.turn if entry.anchor else "",
            "bullets": list(entry.bullets),
            "anchor": anchor_dict(entry.anchor) if entry.anchor else None,
            "source": self.source,
            "start_line": entry.line,
            "end_line": entry.end_line,
            "foreign": self.foreign,
        }


@dataclass(frozen=True, slots=True)
class Listing:
    """Entries, oldest first, of the journals in ``memory_dir``; what went wrong in ``notes``."""

    memory_dir: str
    entries: tuple[Listed, ...]
    notes: tuple[str, ...] = ()


def list_journals(
    cwd: str,
    environ: Mapping[str, str],
    *,
    day: str = "",
    since: str = "",
    until: str = "",
    platform: str = "",
    session: str = "",
    archive: bool = False,
) -> Listing:
    """The entries of a project's journals.

    Args:
        cwd: A folder of the project, absolute.
        environ: The environment.
        day, since, until: Days as ``recall.dates`` reads them, inclusive; empty for none.
        platform: Only this agent's entries; empty for all.
        session: Only this conversation's.
        archive: Those that compaction moved away too.

    Returns:
        By day, then time, then place in the file. A turn whose entry stands in several files
        (copies that a sync made) is listed once.

    Raises:
        MemsearchError: ``CONFIG`` for a bad date, an unknown agent or a broken configuration.
    """
    project, _ = load_at(cwd, environ, strict=True)
    wanted = make_filters(
        today=local_today(),
        base=project.base,
        day=day,
        since=since,
        until=until,
        platform=platform,
    )
    found: list[Listed] = []
    notes: list[str] = []
    folders = [project.memory_dir, *([project.archive_dir] if archive else [])]
    for path in (path for folder in folders for path in journals(folder)):
        named = journal_day(path)
        if named is None or not day_in(named, wanted):
            continue
        try:
            text = read_document(path)
        except MemsearchError as error:
            notes.append(str(error))
            continue
        source = source_of(project, path)
        found += (Listed(source, entry) for entry in parse(text, named))
    found.sort(key=lambda item: (item.day, item.entry.time, item.source, item.entry.line))
    kept = [
        item
        for item in _once(found)
        if (not platform or item.platform == platform)
        and (not session or (item.entry.anchor and item.entry.anchor.session == session))
    ]
    anchors = (item.entry.anchor for item in kept)
    texts = [Written(project, turns_of([anchor.turn] if anchor else [])) for anchor in anchors]
    foreign = origin.foreign(Home.from_env(environ), texts)
    marked = (replace(item, foreign=strange) for item, strange in zip(kept, foreign, strict=True))
    return Listing(project.memory_dir, tuple(marked), tuple(notes))


def journals(folder: str) -> list[str]:
    """The journals in a folder, absolute, by name; none when there is no such folder."""
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [os.path.join(folder, name) for name in names if journal_day(name) is not None]


def _once(found: list[Listed]) -> list[Listed]:
    kept: dict[object, Listed] = {}
    for number, item in enumerate(found):
        anchor = item.entry.anchor
        key: object = number  # what has no turn is only itself
        if anchor is not None and anchor.turn:
            key = (anchor.platform, anchor.turn, item.entry.bullets)
        kept.setdefault(key, item)
    return list(kept.values())
