"""Whether what recall gives out was written by this machine, told for every way it goes.

A mark, not a filter: notes of a cloned repository are worth finding. Whoever reads them has to
know that somebody else wrote them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memsearch.config import trust
from memsearch.config.errors import MemsearchError
from memsearch.recall import logview
from memsearch.sinks.anchors import anchors_in
from memsearch.sinks.documents import read_document
from memsearch.sinks.journal_format import journal_day

if TYPE_CHECKING:
    from memsearch.config.paths import Home
    from memsearch.config.project import Project
    from memsearch.sinks.types import Hit


@dataclass(frozen=True, slots=True)
class Written:
    """A text: the project it stands in, and the turns that its anchors name."""

    project: Project
    turns: tuple[str, ...]


def foreign(home: Home, texts: Sequence[Written]) -> list[bool]:
    """For each text, whether it is foreign.

    Args:
        home: Whose log and trust. A log that cannot be read vouches for nothing.
        texts: What is asked about.
    """
    trusted = trust.trusted(home)
    wanted: dict[tuple[str, str], set[str]] = {}
    for text in texts:
        if text.project.memory_dir not in trusted:
            wanted.setdefault(_key(text.project), set()).update(text.turns)
    ours = _captured(home, wanted)
    return [
        text.project.memory_dir not in trusted
        and trust.is_foreign(text.turns, ours.get(_key(text.project), set()))
        for text in texts
    ]


def _key(project: Project) -> tuple[str, str]:
    return project.memory_dir, project.collection


def _captured(
    home: Home, wanted: dict[tuple[str, str], set[str]]
) -> dict[tuple[str, str], set[str]]:
    if not any(wanted.values()):
        return {}

    def take(db: logview.Connection) -> dict[tuple[str, str], set[str]]:
        if not _has_turns(db):
            return {}
        return {
            (folder, collection): trust.captured(db, folder, turns, collection)
            for (folder, collection), turns in wanted.items()
        }

    try:
        return logview.with_log(home.state_db, take, {})
    except MemsearchError:
        return {}  # the answer says already that the log cannot be read


def _has_turns(db: logview.Connection) -> bool:
    # A hook may have created the file, and nobody has folded yet.
    row = db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'turns'")
    return row.fetchone() is not None


def turns_behind(project: Project, hit: Hit) -> tuple[str, ...]:
    """The turns that a text of the index was written from.

    Of a digest those are the turns of the archived journals of its day: it is ours when all
    that it was made of is.
    """
    if hit.kind != "digest":
        return turns_of([hit.turn])
    try:
        names = sorted(os.listdir(project.archive_dir))
    except OSError:
        return ()
    found: list[str] = []
    for name in names:
        day = journal_day(name)
        if day is not None and day.isoformat() == hit.heading.strip():
            try:
                text = read_document(os.path.join(project.archive_dir, name))
            except MemsearchError:
                return ()
            found += (anchor.turn for anchor in anchors_in(text))
    return turns_of(found)


def turns_of(*ids: Iterable[str]) -> tuple[str, ...]:
    """The turns that are named, each once, in order."""
    return tuple(dict.fromkeys(turn for each in ids for turn in each if turn))
