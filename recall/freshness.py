"""How far the index lags behind the Markdown: the difference between the disk and the log."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from memsearch.config.project import Project, source_of
from memsearch.recall.logview import Document, LogView


@dataclass(frozen=True, slots=True)
class Unindexed:
    """A document whose text the index does not hold as it is now.

    ``mtime_ns`` is its modification time in ns since the epoch, ``size`` in bytes.
    """

    project: Project
    source: str
    path: str
    mtime_ns: int
    size: int
    archived: bool = False


@dataclass(frozen=True, slots=True)
class Freshness:
    """What an answer cannot know from the index.

    Attributes:
        turns: Turns that are on their way into a journal.
        hooks: Hooks that no worker has looked at yet, of any project.
        dead: Turns and documents that were given up and wait for a person.
        documents: Documents that the index does not hold as they are now.
        renewing: Those of them whose text it does hold, for instance with another model.
        since: Since when the index is behind, UTC in ISO 8601; None when it is not.
        unindexed: Those documents that can be read, newest first.
        gone: Sources that were indexed and whose files are no more.
    """

    turns: int = 0
    hooks: int = 0
    dead: int = 0
    documents: int = 0
    renewing: int = 0
    since: str | None = None
    unindexed: tuple[Unindexed, ...] = ()
    gone: frozenset[str] = frozenset()

    @property
    def stale(self) -> bool:
        """Whether the index is behind at all."""
        return bool(self.turns or self.hooks or self.dead or self.documents)

    def as_dict(self) -> dict[str, Any]:
        """The part that goes into an answer."""
        return {
            "stale": self.stale,
            "turns": self.turns,
            "hooks": self.hooks,
            "dead": self.dead,
            "documents": self.documents,
            "renewing": self.renewing,
            "since": self.since,
        }


def check(project: Project, log: LogView, files: Iterable[tuple[str, bool]]) -> Freshness:
    """Compare a project's documents with what the log knows of them.

    Args:
        project: Whose.
        log: The projections.
        files: The Markdown files of its memory, absolute, each with whether it lies in the
            archive. Documents elsewhere are those that the log knows.
    """
    known = {document.source: document for document in log.documents_of(project.collection)}
    unindexed: list[Unindexed] = []
    times: list[str] = []
    gone: set[str] = set()
    seen: set[str] = set()
    behind = 0
    sources = _Sources(project)
    for path, archived in files:
        source = sources.of(path)
        if source in seen:
            continue
        state = _stat(path)
        if state is None:
            continue  # vanished since it was listed; below it is gone, if it was known
        seen.add(source)
        document = known.get(source)
        if document is not None and document.state == "done" and document.indexed == state:
            continue  # as nearly all of them are
        found = Unindexed(project, source, path, state[0], state[1], archived)
        behind += _behind(document, found, unindexed, times)
    for source, document in known.items():
        if source in seen:
            continue
        state = _stat(document.path)
        if state is None:
            gone.add(source)
            continue
        found = Unindexed(project, source, document.path, *state)
        behind += _behind(document, found, unindexed, times)
    turns = log.waiting_of(project.collection)
    if turns.since:
        times.append(turns.since)
    dead = turns.dead + sum(document.state == "dead" for document in known.values())
    return Freshness(
        turns=turns.turns,
        hooks=turns.hooks,
        dead=dead,
        documents=behind,
        renewing=behind - len(unindexed),
        since=min(times, default=None),
        unindexed=tuple(sorted(unindexed, key=lambda item: (-item.mtime_ns, item.source))),
        gone=frozenset(gone),
    )


def merge(parts: Iterable[Freshness]) -> Freshness:
    """The freshness of several projects together."""
    parts = list(parts)
    return Freshness(
        turns=sum(part.turns for part in parts),
        # Hooks are counted over all projects already.
        hooks=max((part.hooks for part in parts), default=0),
        dead=sum(part.dead for part in parts),
        documents=sum(part.documents for part in parts),
        renewing=sum(part.renewing for part in parts),
        since=min((part.since for part in parts if part.since), default=None),
        unindexed=tuple(
            sorted(
                (item for part in parts for item in part.unindexed),
                key=lambda item: (-item.mtime_ns, item.path),
            )
        ),
        gone=frozenset().union(*(part.gone for part in parts)),
    )


class _Sources:
    """``source_of`` for the files of few folders: each folder's links are followed once.

    The files come from a walk, which gives none that is a link itself.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._folders: dict[str, str] = {}

    def of(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        known = self._folders.get(folder)
        if known is None:
            whole = source_of(self._project, path)
            known = self._folders[folder] = whole[: len(whole) - len(name)]
        return known + name


def _behind(
    document: Document | None, found: Unindexed, unindexed: list[Unindexed], times: list[str]
) -> int:
    """1 when the index lacks this state of the file, which is then noted; else 0."""
    if document and document.indexed == (found.mtime_ns, found.size):
        if document.state == "done":
            return 0
        if document.state == "dead":
            # An index that was made anew went on without it: then its words are read here.
            unindexed.append(found)
        # Its text is indexed; something else of it is being renewed, for instance its model.
        times.append(document.updated)
        return 1
    if found.size:
        unindexed.append(found)
        times.append(_utc(found.mtime_ns))
        return 1
    return 0


def _stat(path: str) -> tuple[int, int] | None:
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size


def _utc(mtime_ns: int) -> str:
    moment = datetime.fromtimestamp(mtime_ns // 1_000_000_000, tz=UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")
