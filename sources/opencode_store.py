"""Where OpenCode keeps its conversations: its databases, and the files of older releases.

Releases differ in the names of their tables and in whether there is a database at all; what
a message and a part hold is the same in all of them. So every place answers the same
questions here (:class:`Place`), and :mod:`memsearch.sources.opencode` asks them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from memsearch.sources.cleaning import text_of
from memsearch.sources.lines import BLOCK_BYTES, MAX_LINE_BYTES, Record, Shrinker, decode
from memsearch.sources.sqlite_store import parse, quoted, read_json, tables, unknown_schema

#: Times that are looked up at once.
_BATCH_TIMES = 500
#: What is kept of a message's own fields; others hold whole files before and after an edit.
_KEPT = ("time", "error", "finish", "mode", "summary", "agent")


class Session(NamedTuple):
    """A session as its place lists it; times are milliseconds since the epoch, 0 if unknown."""

    id: str
    directory: str
    parent: str
    changed: int
    created: int


class Head(NamedTuple):
    """A message before its parts are read; ``at`` is milliseconds since the epoch."""

    id: str
    at: int
    role: str
    parent: str
    data: Record


class Place(Protocol):
    """Somewhere that OpenCode keeps sessions."""

    def sessions(self) -> Iterator[Session]:
        """Every session, oldest first."""
        ...

    def session(self, name: str) -> Session | None:
        """One session; None when it is not here."""
        ...

    def session_of(self, message: str) -> str | None:
        """The session that a message belongs to."""
        ...

    def heads(self, session: str) -> list[Head]:
        """The messages of a session, oldest first."""
        ...

    def parts(self, session: str, message: str) -> Iterator[Record]:
        """The parts of a message, in order."""
        ...

    def said_before(self, session: Session, times: Set[int]) -> set[int]:
        """Those times (milliseconds) at which an older session than this has a message."""
        ...


# Databases ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables of one release, and those of their columns that were renamed."""

    session: str
    message: str
    part: str
    message_session: str
    part_message: str
    parent: str
    directory: str
    message_time: str
    session_time: str
    session_created: str


#: The names that the tables had, in the order of the releases.
_NAMES = (
    ("session", "message", "part"),
    ("sessions", "messages", "parts"),
    ("session_v2", "message_v2", "part_v2"),
    ("sessions_v2", "messages_v2", "parts_v2"),
)
#: Tables of a coming release that hold talk in a way that is not known yet.
_UNKNOWN_TALK = ("session_message",)


def layouts(found: dict[str, frozenset[str]]) -> list[Layout]:
    """The layouts that a database holds, by its tables and their columns. Pure."""
    known = []
    for session, message, part in _NAMES:
        columns = found.get(session), found.get(message), found.get(part)
        s, m, p = (each or frozenset() for each in columns)
        message_session = _first(m, "session_id", "sessionID", "sessionId")
        part_message = _first(p, "message_id", "messageID", "messageId")
        if not ({"id"} <= s and {"id", "data"} <= m and {"id", "data"} <= p):
            continue
        if not (message_session and part_message):
            continue
        known.append(
            Layout(
                session,
                message,
                part,
                message_session,
                part_message,
                parent=_first(s, "parent_id", "parentID", "parentId"),
                directory=_first(s, "directory", "cwd"),
                message_time=_first(m, "time_created", "created_at"),
                session_time=_first(s, "time_updated", "updated_at", "time_created"),
                session_created=_first(s, "time_created", "created_at"),
            )
        )
    return known


def _first(columns: frozenset[str], *names: str) -> str:
    return next((name for name in names if name in columns), "")


class Database:
    """One database, with all the layouts that it holds.

    Args:
        db: Opened for reading.
        path: Its file, for errors.

    Raises:
        MemsearchError: ``BAD_FILE`` when none of its tables is known.
    """

    def __init__(self, db: sqlite3.Connection, path: str) -> None:
        self._db = db
        self._path = path
        self._tables = tables(db)
        self._layouts = layouts(self._tables)
        if not self._layouts:
            raise unknown_schema(path, self._tables, "OpenCode")

    def sessions(self) -> Iterator[Session]:
        seen: set[str] = set()
        for layout in self._layouts:
            sql = self._sessions_sql(layout) + f" ORDER BY {layout.session_time or 'id'}, id"
            for row in self._db.execute(sql).fetchall():
                if row[0] not in seen:
                    seen.add(row[0])
                    yield _session(row)

    def session(self, name: str) -> Session | None:
        for layout in self._layouts:
            sql = self._sessions_sql(layout) + " WHERE id = ?"
            row = self._db.execute(sql, (name,)).fetchone()
            if row is not None:
                return _session(row)
        return None

    @staticmethod
    def _sessions_sql(layout: Layout) -> str:
        columns = [
            quoted(name) if name else "''"
            for name in (
                layout.directory,
                layout.parent,
                layout.session_time,
                layout.session_created,
            )
        ]
        return f"SELECT id, {', '.join(columns)} FROM {quoted(layout.session)}"

    def session_of(self, message: str) -> str | None:
        for layout in self._layouts:
            row = self._db.execute(
                f"SELECT {quoted(layout.message_session)} FROM {quoted(layout.message)}"
                " WHERE id = ?",
                (message,),
            ).fetchone()
            if row is not None:
                return str(row[0])
        return None

    def heads(self, session: str) -> list[Head]:
        found: dict[str, Head] = {}
        for layout in self._layouts:
            time = quoted(layout.message_time) if layout.message_time else "0"
            rows = self._db.execute(
                f"SELECT rowid, id, {time}, length(data) FROM {quoted(layout.message)}"
                f" WHERE {quoted(layout.message_session)} = ?",
                (session,),
            ).fetchall()
            for rowid, name, at, size in rows:
                data = read_json(self._db, layout.message, "data", rowid, size or 0)
                if data is not None and name not in found:
                    found[name] = head_of(str(name), data, at)
        if not found:
            self._expect_nothing(session)
        return sorted(found.values(), key=lambda head: (head.at, head.id))

    def said_before(self, session: Session, times: Set[int]) -> set[int]:
        found: set[int] = set()
        for layout in self._layouts:
            if not (layout.message_time and layout.session_created):
                return set(times)  # this release does not say: copies are the other session's
            wanted = sorted(times)
            for at in range(0, len(wanted), _BATCH_TIMES):
                some = wanted[at : at + _BATCH_TIMES]
                rows = self._db.execute(
                    f"SELECT DISTINCT m.{quoted(layout.message_time)}"
                    f" FROM {quoted(layout.message)} AS m JOIN {quoted(layout.session)} AS s"
                    f" ON s.id = m.{quoted(layout.message_session)}"
                    f" WHERE m.{quoted(layout.message_time)} IN ({', '.join('?' * len(some))})"
                    f" AND (COALESCE(s.{quoted(layout.session_created)}, 0), s.id) < (?, ?)",
                    (*some, session.created, session.id),
                ).fetchall()
                found.update(_milliseconds(row[0]) for row in rows)
        return found

    def _expect_nothing(self, session: str) -> None:
        """A session without messages must not have its talk where it cannot be read."""
        for table in _UNKNOWN_TALK:
            if "session_id" not in self._tables.get(table, ()):
                continue
            sql = f"SELECT 1 FROM {quoted(table)} WHERE session_id = ? LIMIT 1"
            if self._db.execute(sql, (session,)).fetchone() is not None:
                raise unknown_schema(self._path, {table: frozenset()}, "OpenCode")

    def parts(self, session: str, message: str) -> Iterator[Record]:  # noqa: ARG002
        seen: set[str] = set()
        for layout in self._layouts:
            rows = self._db.execute(
                f"SELECT rowid, id, length(data) FROM {quoted(layout.part)}"
                f" WHERE {quoted(layout.part_message)} = ? ORDER BY id",
                (message,),
            ).fetchall()
            for rowid, name, size in rows:
                if name in seen:
                    continue
                seen.add(name)
                data = read_json(self._db, layout.part, "data", rowid, size or 0)
                if data is not None:
                    yield data


def _session(row: sqlite3.Row) -> Session:
    name, directory, parent, changed, created = row
    return Session(
        str(name),
        text_of(directory),
        text_of(parent),
        _milliseconds(changed),
        _milliseconds(created),
    )


def head_of(name: str, data: Record, at: object = 0) -> Head:
    """A message's head from what it holds."""
    time = data.get("time")
    created = time.get("created") if isinstance(time, dict) else None
    return Head(
        name,
        _milliseconds(created) or _milliseconds(at),
        text_of(data.get("role")),
        text_of(data.get("parentID")),
        {key: data[key] for key in _KEPT if key in data},
    )


def _milliseconds(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value)


# Files --------------------------------------------------------------------------------------


class Tree:
    """The JSON files of releases before the database: one file a message, one a part.

    ``storage/{session/<project>,message/<session>,part/<message>}``; before that, below each
    ``project/<name>/storage/session``, ``{info,message/<session>,part/<session>/<message>}``.

    Args:
        root: OpenCode's data folder.
    """

    def __init__(self, root: str) -> None:
        self._root = root

    def is_there(self) -> bool:
        """Whether any message is kept in files."""
        return next(self._folders(), None) is not None

    def _folders(self) -> Iterator[tuple[str, bool]]:
        """Folders that hold ``message`` and ``part``, and whether they are of the older kind."""
        storage = os.path.join(self._root, "storage")
        if os.path.isdir(os.path.join(storage, "message")):
            yield storage, False
        for older in (storage, *(entry.path for entry in _entries(self._root, "project"))):
            inner = older if older == storage else os.path.join(older, "storage")
            inner = os.path.join(inner, "session")
            if os.path.isdir(os.path.join(inner, "message")):
                yield inner, True

    def _infos(self) -> Iterator[str]:
        for folder, is_older in self._folders():
            inner = os.path.join(folder, "info" if is_older else "session")
            for entry in _entries(inner):
                if entry.name.endswith(".json"):
                    yield entry.path
                elif entry.is_dir(follow_symlinks=False):
                    yield from (e.path for e in _entries(entry.path) if e.name.endswith(".json"))

    def sessions(self) -> Iterator[Session]:
        for path in self._infos():
            session = self._read_session(path)
            if session is not None:
                yield session

    def session(self, name: str) -> Session | None:
        wanted = name + ".json"
        for path in self._infos():
            if os.path.basename(path) == wanted:
                return self._read_session(path)
        return None

    @staticmethod
    def _read_session(path: str) -> Session | None:
        data = _read_file(path)
        if data is None:
            return None
        time = data.get("time")
        times = time if isinstance(time, dict) else {}
        return Session(
            text_of(data.get("id")) or os.path.basename(path).removesuffix(".json"),
            text_of(data.get("directory")),
            text_of(data.get("parentID")),
            _milliseconds(times.get("updated")),
            _milliseconds(times.get("created")),
        )

    def session_of(self, message: str) -> str | None:
        for folder, _ in self._folders():
            for session in _entries(os.path.join(folder, "message")):
                if os.path.exists(os.path.join(session.path, message + ".json")):
                    return session.name
        return None

    def heads(self, session: str) -> list[Head]:
        found: dict[str, Head] = {}
        if not _is_name(session):
            return []
        for folder, _ in self._folders():
            for entry in _entries(os.path.join(folder, "message", session)):
                data = _read_file(entry.path) if entry.name.endswith(".json") else None
                if data is not None:
                    name = text_of(data.get("id")) or entry.name.removesuffix(".json")
                    found.setdefault(name, head_of(name, data))
        return sorted(found.values(), key=lambda head: (head.at, head.id))

    def said_before(self, session: Session, times: Set[int]) -> set[int]:
        left = set(times)
        for other in self.sessions():
            if left and (other.created, other.id) < (session.created, session.id):
                left -= {head.at for head in self.heads(other.id)}
        return set(times) - left

    def parts(self, session: str, message: str) -> Iterator[Record]:
        if not (_is_name(session) and _is_name(message)):
            return
        for folder, is_older in self._folders():
            inner = os.path.join(folder, "part", *([session] if is_older else []), message)
            for entry in _entries(inner):
                data = _read_file(entry.path) if entry.name.endswith(".json") else None
                if data is not None:
                    yield data


def _is_name(value: str) -> bool:
    """Whether an id can be the name of one file, and leads nowhere else."""
    return bool(value) and "/" not in value and "\0" not in value and value not in (".", "..")


def _entries(folder: str, *more: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(os.path.join(folder, *more)) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []  # no such folder: this release kept nothing there


def _read_file(path: str) -> Record | None:
    """The object in a file; None when it went away or holds none."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size <= MAX_LINE_BYTES:
                return parse(file.read().decode("utf-8", "replace"))
            shrinker = Shrinker()
            while piece := file.read(BLOCK_BYTES):
                shrinker.feed(piece)
    except OSError:
        return None
    data = shrinker.result()
    record = None if data is None else decode(data)
    return record if isinstance(record, dict) else None
