"""The event log's projections, read by recall: what is indexed, what waits, which projects.

Strictly read-only. A search must not create ``state.db``, nor leave files beside it, so the
ways in which SQLite makes files for a reader are avoided here.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.project import Project

#: Seconds to wait for SQLite's locks; readers of a WAL database hardly ever meet one.
BUSY_SECONDS = 2.0

T = TypeVar("T")
Connection = sqlite3.Connection


@dataclass(frozen=True, slots=True)
class Document:
    """What the log knows of one document.

    ``indexed`` is the ``(mtime in ns, size in bytes)`` of the file as the index holds it, in
    ``chunks`` rows, or None when it was never indexed or what the index holds is in doubt.
    ``state`` is ``open``, ``dead`` or ``done``. ``model`` is the embedding model that its
    vectors in the index are of; empty when it has none. ``held``: it waits until somebody
    agrees to what embedding it costs.
    """

    source: str
    path: str
    state: str
    updated: str
    indexed: tuple[int, int] | None
    model: str = ""
    held: bool = False
    chunks: int = 0


@dataclass(frozen=True, slots=True)
class Waiting:
    """Turns on their way into a collection's journals.

    ``since`` is when the oldest of them began, UTC in ISO 8601, or None when there is none.
    ``hooks`` are hooks that no worker has looked at yet; they do not say which project.
    """

    turns: int = 0
    dead: int = 0
    hooks: int = 0
    since: str | None = None


@dataclass(frozen=True, slots=True)
class LogView:
    """The projections at one moment; ``read`` takes it.

    Attributes:
        projects: Every project that a hook, a search or an index has named.
        documents: Documents by collection, without removed ones.
        waiting: Turns by collection.
        hooks: Hooks not looked at yet, of any project, and when the oldest of them came.
    """

    projects: tuple[Project, ...] = ()
    documents: dict[str, tuple[Document, ...]] | None = None
    waiting: dict[str, Waiting] | None = None
    hooks: tuple[int, str | None] = (0, None)

    def documents_of(self, collection: str) -> tuple[Document, ...]:
        """The documents of one collection."""
        return (self.documents or {}).get(collection, ())

    def waiting_of(self, collection: str) -> Waiting:
        """The turns that are on their way into one collection, and the unread hooks."""
        turns = (self.waiting or {}).get(collection, Waiting())
        hooks, hooked = self.hooks
        since = min((at for at in (turns.since, hooked) if at), default=None)
        return Waiting(turns.turns, turns.dead, hooks, since)


def read(path: str, collections: tuple[str, ...] | None) -> LogView:
    """Read the projections.

    Args:
        path: ``state.db``. A missing one is an empty log.
        collections: The collections whose documents and turns are wanted; None for all.

    Raises:
        MemsearchError: ``DAMAGED`` or ``PERMISSION`` when the file is there and cannot be
            read.
    """
    return with_log(path, lambda db: _take(db, collections), LogView())


def with_log(path: str, take: Callable[[Connection], T], missing: T) -> T:
    """What ``take`` reads from the log, without leaving a file beside it.

    Args:
        path: ``state.db``.
        take: Given a connection that cannot write. It may be called twice.
        missing: The result when there is no log.

    Raises:
        MemsearchError: As ``read``.
    """
    if not os.path.exists(path):
        return missing
    try:
        return _with_connection(path, take)
    except sqlite3.Error as error:
        raise _unreadable(path, error) from error


def captured_from(path: str, transcript: str) -> str:
    """The agent whose transcript this machine's own log has captured turns from, else "".

    Args:
        path: ``state.db``.
        transcript: Real path of a transcript or database.

    Raises:
        MemsearchError: As ``read``.
    """
    if not os.path.exists(path):
        return ""

    def take(db: sqlite3.Connection) -> str:
        row = db.execute(
            "SELECT platform FROM transcripts WHERE path = ?", (transcript,)
        ).fetchone()
        return str(row[0]) if row else ""

    try:
        return _with_connection(path, take)
    except sqlite3.OperationalError:
        return ""  # nothing was folded yet
    except UnicodeEncodeError:
        return ""  # the log holds no path that is not UTF-8
    except sqlite3.Error as error:
        raise _unreadable(path, error) from error


def _with_connection(path: str, take: Callable[[sqlite3.Connection], T]) -> T:
    address = "file:" + quote(os.fsencode(os.path.abspath(path)))
    if _has_frames(path + "-wal"):
        return _run(address + "?mode=ro", take)
    # A reader of a WAL database creates -wal and -shm beside it and leaves them there. With
    # nothing in the log file the database is whole as it is, and ``immutable`` makes none.
    # A checkpoint that runs at this very moment may make such a reading fail: then again.
    try:
        return _run(address + "?mode=ro&immutable=1", take)
    except sqlite3.DatabaseError:
        return _run(address + "?mode=ro", take)


def _run(address: str, take: Callable[[sqlite3.Connection], T]) -> T:
    with closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS)) as db:
        db.execute("PRAGMA query_only = ON")
        return take(db)


def _has_frames(wal: str) -> bool:
    try:
        return os.stat(wal).st_size > 0
    except OSError:
        return False


def _take(db: sqlite3.Connection, collections: tuple[str, ...] | None) -> LogView:
    tables = {
        str(name)
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    }
    if not {"turns", "documents", "projects"} <= tables:
        return LogView()  # a hook has created the file, and nobody has folded yet
    where, values = "", tuple[str, ...]()
    if collections is not None:
        where = f" AND collection IN ({', '.join('?' * len(collections))})"
        values = collections
    documents: dict[str, list[Document]] = {}
    for row in db.execute(
        "SELECT collection, source, path, state, updated, indexed_mtime_ns, indexed_size,"
        " indexed_hash, identity, error_class, chunks FROM documents WHERE state != 'removed'"
        + where,
        values,
    ).fetchall():
        collection, source, file, state, updated, mtime_ns, size, known, identity, why, count = row
        # A change by force (the index has lost it, or is made anew) takes the hash away.
        sure = mtime_ns is not None and known is not None
        indexed = (int(mtime_ns), int(size or 0)) if sure else None
        held = state == "open" and why == "cost"
        model = model_of(identity or "")
        documents.setdefault(collection, []).append(
            Document(source, file, state, updated, indexed, model, held, int(count or 0))
        )
    waiting: dict[str, Waiting] = {}
    for collection, open_turns, dead, since in db.execute(
        "SELECT collection, sum(state = 'open'), sum(state = 'dead'),"
        " min(CASE WHEN state = 'open' THEN at END) FROM turns"
        " WHERE state IN ('open', 'dead') AND collection IS NOT NULL" + where + " GROUP BY 1",
        values,
    ).fetchall():
        waiting[collection] = Waiting(int(open_turns or 0), int(dead or 0), 0, since)
    hooks: tuple[int, str | None] = (0, None)
    if "hooks" in tables:
        count, oldest = db.execute(
            "SELECT count(*), min(at) FROM hooks WHERE state = 'open'"
        ).fetchone()
        hooks = (int(count), oldest)
    projects = tuple(
        Project(root, memory_dir, base, collection)
        for root, memory_dir, base, collection in db.execute(
            "SELECT root, memory_dir, base, collection FROM projects ORDER BY seen DESC"
        ).fetchall()
    )
    return LogView(
        projects, {name: tuple(found) for name, found in documents.items()}, waiting, hooks
    )


def model_of(identity: str) -> str:
    """The model in an index identity (``<model>/chunker-N/keywords-N``)."""
    return identity.partition("/chunker-")[0]


def _unreadable(path: str, error: sqlite3.Error) -> MemsearchError:
    if isinstance(error, sqlite3.OperationalError) and not os.access(path, os.R_OK):
        return MemsearchError(
            f"{path} cannot be read: {error}",
            kind=ErrorClass.PERMISSION,
            hint="make it readable for your user",
        )
    return MemsearchError(
        f"{path} cannot be read: {error}",
        kind=ErrorClass.DAMAGED,
        hint="run memsearch status, which says what to do about it",
    )
