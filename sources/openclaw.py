"""OpenClaw: ``~/.openclaw/agents/<agent>/agent/openclaw-agent.sqlite``; before it, JSONL files.

A turn begins with an event that holds the user's message; its id is the event's. In the
database a position is the event's number in its session (``seq``), in a file its offset.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import untilde, user_home
from memsearch.sources.base import MAX_READING_CHARS, Conversation, Pointer, Reading, Turn
from memsearch.sources.cleaning import text_of
from memsearch.sources.jsonl import MAX_OLDER_TURNS, JsonlSource, Opening, open_file, weight
from memsearch.sources.lines import MAX_LINE_BYTES, Record, Shrinker, decode, read_line
from memsearch.sources.listing import files_under, of_file
from memsearch.sources.openclaw_events import PLATFORM, EventFold, read_asked, run_of
from memsearch.sources.sqlite_store import (
    open_readonly,
    parse,
    read_json,
    tables,
    unknown_schema,
)
from memsearch.sources.times import parse_time
from memsearch.sources.window import around

#: Bytes that one packed event may have when it is unpacked; OpenClaw writes up to 4 MiB.
MAX_EVENT_BYTES = 16_000_000
#: Events that are looked up at once.
BATCH_EVENTS = 256
#: More than any event's number.
_NO_EVENT = 1 << 62
#: Bytes of the list of sessions beside the older files that are read.
_MAX_LIST_BYTES = 16_000_000
#: How sessions came to be that no person began.
_NOT_HUMAN = frozenset({"spawn", "internal"})


class OpenClaw(JsonlSource):
    """The source of OpenClaw's conversations."""

    platform = PLATFORM
    display_name = "OpenClaw"
    resumable = False
    #: ``agentId`` names one of the user's agents, of which each has its own database.
    agent_is_subagent = False
    opening_marks = (b'"user"',)

    def roots(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """The folder of all agents, as a real path."""
        home = user_home(environ)
        place = untilde(environ.get("OPENCLAW_HOME") or home, home)
        state = untilde(environ.get("OPENCLAW_STATE_DIR") or os.path.join(place, ".openclaw"), home)
        return (os.path.realpath(os.path.join(state, "agents")),)

    def databases(self, environ: Mapping[str, str]) -> list[str]:
        """The databases of all agents, by their names."""
        (root,) = self.roots(environ)
        found = Path(root).glob("*/agent/openclaw-agent.sqlite")
        return sorted(str(path) for path in found)

    def conversations(self, environ: Mapping[str, str]) -> Iterator[Conversation]:
        """Every session of every agent, once: of the databases, then of the older files."""
        seen: set[str] = set()
        for path in self.databases(environ):
            with open_readonly(path) as db:
                listed = list(_Store(db, path).windows())
            for window in listed:
                if window.id not in seen and not window.foreign:
                    seen.add(window.id)
                    changed = parse_time(window.changed) or datetime.fromtimestamp(0, UTC)
                    yield Conversation(PLATFORM, window.id, path, changed)
        for path in files_under(self.roots(environ), ".jsonl"):
            if _is_session_file(path) and Path(path).stem not in seen:
                yield from of_file(PLATFORM, path, Path(path).stem)

    def locate(self, session: str, environ: Mapping[str, str], agent: str = "") -> str | None:
        """The database or file that holds a session, by its id or its key.

        A session that no database holds yet will be in that of the agent that is named, by
        itself or by the session's key, else in that of ``main``.
        """
        databases = self.databases(environ)
        for path in databases:
            with open_readonly(path) as db:
                if _Store(db, path).resolve(session) is not None:
                    return path
        for path in files_under(self.roots(environ), ".jsonl"):
            if _is_session_file(path) and Path(path).stem == session:
                return path
        parts = session.split(":")
        if not agent:
            agent = parts[1] if parts[0] == "agent" and len(parts) > 2 else "main"
        own = os.path.join(self.roots(environ)[0], agent, "agent", "openclaw-agent.sqlite")
        return own if own in databases else None

    # Files of older releases

    def is_foreign(self, path: str) -> bool:
        """A subagent's file, by the list of sessions beside it."""
        session = Path(path).stem
        list_path = os.path.join(os.path.dirname(path), "sessions.json")
        try:
            with open(list_path, "rb") as file:
                known = parse(file.read(_MAX_LIST_BYTES).decode("utf-8", "replace")) or {}
        except OSError:
            return False
        return any(
            isinstance(entry, dict)
            and entry.get("sessionId") == session
            and (":subagent:" in key or bool(entry.get("spawnedBy")))
            for key, entry in known.items()
        )

    def fold(self, pointer: Pointer, fallback: datetime) -> EventFold:
        """A fold for one file."""
        if not pointer.session:
            pointer = Pointer(
                PLATFORM, Path(pointer.path).stem, pointer.path, pointer.turn, pointer.cwd
            )
        return EventFold(pointer, fallback, _head(pointer.path))

    def opening(self, record: Record, offset: int) -> Opening | None:  # noqa: ARG002
        """What an event opens."""
        asked = read_asked(record)
        if asked is None:
            return None
        return Opening(asked.id, asked.at, "turn" if asked.opens else "alias")

    def first_words(self, record: Record) -> str | None:
        """The first thing that the user sent, as it was sent."""
        asked = read_asked(record)
        return asked.raw if asked is not None and asked.opens else None

    # Databases

    def read(
        self,
        pointer: Pointer,
        *,
        start: int | None,
        not_before: datetime | None,
        is_ours: Callable[[str], bool] = lambda _text: False,
    ) -> Reading:
        """See :meth:`memsearch.sources.base.Source.read`."""
        if pointer.path.endswith(".jsonl"):
            return super().read(pointer, start=start, not_before=not_before, is_ours=is_ours)
        with open_readonly(pointer.path) as db:
            store = _Store(db, pointer.path)
            window = store.resolve(pointer.session)
            if window is None:
                return Reading((), 0, {}, {}, torn=False)
            if window.foreign or store.is_ours(window.id, is_ours):
                return Reading((), 0, {}, {}, torn=False, foreign=True)
            begin = store.begin(window.id, pointer.turn, start, not_before)
            fold = store.fold(window, pointer)
            kept: list[Turn] = []
            room = MAX_READING_CHARS
            stopped: int | None = None
            last: Turn | None = None
            for turn in store.turns(window.id, fold, begin):
                last = turn
                hooked = pointer.turn is not None and turn.answers_to(pointer.turn)
                recent = not_before is None or turn.at >= not_before
                if stopped is None and room < 0:
                    stopped = turn.position
                if hooked or (recent and stopped is None):
                    kept.append(turn)
                    room -= weight(turn)
            if start is None and pointer.turn is None and last is not None and last not in kept:
                kept.append(last)
            resume = last.position if last is not None else begin
            return Reading(
                turns=tuple(kept),
                resume=resume if stopped is None else stopped,
                unknown=dict(fold.unknown),
                skipped=dict(store.skipped),
                torn=False,
                more=stopped is not None,
            )

    def conversation(
        self, path: str, session: str, turn: str | None, *, context: int = 3
    ) -> tuple[Turn, ...]:
        """See :meth:`memsearch.sources.base.Source.conversation`."""
        if path.endswith(".jsonl"):
            return super().conversation(path, session, turn, context=context)
        pointer = Pointer(PLATFORM, session, path, turn=turn)
        with open_readonly(path) as db:
            store = _Store(db, path)
            windows = list(store.windows()) if not session else [store.resolve(session)]
            found = [window for window in windows if window is not None]
            if not found:
                raise MemsearchError(
                    f"{path} does not hold the session {session}",
                    kind=ErrorClass.BAD_FILE,
                    hint="it was deleted in OpenClaw, or belongs to another agent",
                )
            if turn is None and not session:
                found = found[-1:]
            return around(
                chain.from_iterable(
                    store.turns(window.id, store.fold(window, pointer), 0) for window in found
                ),
                turn,
                context,
                path,
            )


def _is_session_file(path: str) -> bool:
    """Whether a file is a session's own: ``<id>.jsonl`` in an agent's folder of sessions.

    Beside it lie ``<id>.jsonl.reset.<time>``, ``.deleted.<time>`` and ``.bak``, copies that
    were made before a compaction (``<id>.checkpoint.<id>.jsonl``), and traces.
    """
    name = os.path.basename(path)
    return os.path.basename(os.path.dirname(path)) == "sessions" and name.count(".") == 1


def _head(path: str) -> Record:
    """The first event of a file, which says where the agent works."""
    with open_file(path) as file:
        line = next(iter([read_line(file, 0)]) if os.path.getsize(path) else iter(()), None)
    record = decode(line.data) if line is not None and line.data is not None else None
    return record if isinstance(record, dict) and record.get("type") == "session" else {}


class _Window(NamedTuple):
    """A session as the database lists it; ``changed`` is milliseconds since the epoch."""

    id: str
    key: str
    changed: int
    foreign: bool


class _Store:
    """One agent's database.

    Args:
        db: Opened for reading.
        path: Its file, for errors.

    Raises:
        MemsearchError: ``BAD_FILE`` when its tables are not known.
    """

    def __init__(self, db: sqlite3.Connection, path: str) -> None:
        self._db = db
        self._path = path
        self._tables = tables(db)
        self._events = self._tables.get("transcript_events", frozenset())
        if not {"session_id", "seq", "event_json"} <= self._events:
            raise unknown_schema(path, self._tables, "OpenClaw")
        #: Events that could not be unpacked, by reason.
        self.skipped: Counter[str] = Counter()

    def windows(self) -> Iterator[_Window]:
        """Every session that has events, oldest first."""
        columns = self._tables.get("session_windows", frozenset())
        if {"session_id", "created_at", "updated_at", "transcript_updated_at"} <= columns:
            sql = (
                "SELECT session_id, COALESCE(transcript_updated_at, updated_at)"
                " FROM session_windows AS w WHERE EXISTS"
                " (SELECT 1 FROM transcript_events AS e WHERE e.session_id = w.session_id)"
                " ORDER BY created_at, session_id"
            )
        else:
            sql = (
                "SELECT session_id, MAX(created_at) FROM transcript_events"
                " GROUP BY session_id ORDER BY MIN(created_at), session_id"
            )
        for session, changed in self._db.execute(sql).fetchall():
            yield self._window(str(session), changed)

    def resolve(self, session: str) -> _Window | None:
        """A session by its id, or by the key of the conversation that it is the current one of."""
        if "session_nodes" in self._tables and ":" in session:
            row = self._db.execute(
                "SELECT current_session_id FROM session_nodes WHERE session_key = ?", (session,)
            ).fetchone()
            session = str(row[0]) if row is not None else session
        row = self._db.execute(
            "SELECT MAX(created_at) FROM transcript_events WHERE session_id = ?", (session,)
        ).fetchone()
        return None if row[0] is None else self._window(session, row[0])

    def _window(self, session: str, changed: object) -> _Window:
        known = self._facts("session_windows", "session_id", session)
        key = text_of(known.get("session_key"))
        node = self._facts("session_nodes", "session_key", key) if key else {}
        foreign = (
            ":subagent:" in key
            or bool(known.get("spawned_by") or node.get("spawned_by"))
            or node.get("created_via") in _NOT_HUMAN
        )
        return _Window(session, key, changed if isinstance(changed, int) else 0, foreign)

    def _facts(self, table: str, column: str, value: str) -> dict[str, object]:
        columns = self._tables.get(table, frozenset())
        wanted = sorted(columns & {"session_key", "spawned_by", "created_via"})
        if column not in columns or not wanted:
            return {}
        row = self._db.execute(
            f"SELECT {', '.join(wanted)} FROM {table} WHERE {column} = ?", (value,)
        ).fetchone()
        return {} if row is None else dict(zip(wanted, row, strict=True))

    # Events

    def events(
        self, session: str, begin: int = 0, *, backward: bool = False
    ) -> Iterator[tuple[int, Record]]:
        """The events of a session from a number on, unpacked."""
        packed = "length(event_zstd)" if "event_zstd" in self._events else "NULL"
        order, after = ("DESC", "seq < ?") if backward else ("ASC", "seq > ?")
        last = _NO_EVENT if backward else -1
        while True:
            rows = self._db.execute(
                f"SELECT rowid, seq, length(event_json), {packed} FROM transcript_events"
                f" WHERE session_id = ? AND seq >= ? AND {after} ORDER BY seq {order} LIMIT ?",
                (session, begin, last, BATCH_EVENTS),
            ).fetchall()
            for rowid, seq, size, packed_size in rows:
                last = seq
                record = self._record(rowid, size, packed_size)
                if record is None:
                    self.skipped["not readable"] += 1
                else:
                    yield seq, record
            if len(rows) < BATCH_EVENTS:
                return

    def _record(self, rowid: int, size: int | None, packed_size: int | None) -> Record | None:
        if size is not None:
            return read_json(self._db, "transcript_events", "event_json", rowid, size)
        return self._unpack(rowid) if packed_size is not None else None

    def _unpack(self, rowid: int) -> Record | None:
        import zstandard

        with self._db.blobopen("transcript_events", "event_zstd", rowid, readonly=True) as blob:
            data = blob.read()
        shrinker = Shrinker()
        size = 0
        whole: bytes | None = b""
        try:
            with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                while piece := reader.read(MAX_LINE_BYTES // 8):
                    size += len(piece)
                    if size > MAX_EVENT_BYTES:
                        return None
                    shrinker.feed(piece)
                    if whole is not None:
                        whole = whole + piece if size <= MAX_LINE_BYTES else None
        except zstandard.ZstdError:
            return None
        data = whole if whole is not None else shrinker.result() or b""
        record = decode(data)
        return record if isinstance(record, dict) else None

    def begin(
        self, session: str, wanted: str | None, start: int | None, not_before: datetime | None
    ) -> int:
        """The first event to read: that of the oldest turn that is asked for."""
        if start is not None:
            return start
        if not_before is None:
            return 0
        begin: int | None = None
        end = 0
        missing, older = True, 0
        names = False  # an alias was passed: the turn before it is meant
        for seq, record in self.events(session, backward=True):
            end = end or seq + 1
            names = names or (wanted is not None and run_of(record) == wanted)
            asked = read_asked(record)
            if asked is None:
                continue
            names = names or wanted in (None, asked.id, asked.run)
            if not asked.opens:
                continue
            recent = asked.at is None or asked.at >= not_before
            if missing and names:
                missing = False
                begin = seq
            elif recent:
                begin = seq
            elif not missing or older >= MAX_OLDER_TURNS:
                break
            else:
                older += 1
        return end if begin is None else begin

    def is_ours(self, session: str, is_ours: Callable[[str], bool]) -> bool:
        """Whether a session begins with our own summariser's prompt."""
        for _, record in self.events(session):
            asked = read_asked(record)
            if asked is not None and asked.opens:
                return is_ours(asked.raw)
        return False

    def fold(self, window: _Window, pointer: Pointer) -> EventFold:
        """A fold for one session."""
        head = next((record for _, record in self.events(window.id)), {})
        named = Pointer(PLATFORM, window.id, pointer.path, pointer.turn, pointer.cwd)
        fallback = parse_time(window.changed) or datetime.fromtimestamp(0, UTC)
        return EventFold(named, fallback, head if head.get("type") == "session" else {})

    def turns(self, session: str, fold: EventFold, begin: int) -> Iterator[Turn]:
        """The turns of a session from an event on."""
        for seq, record in self.events(session, begin):
            yield from fold.feed(record, seq)
        yield from fold.finish()
