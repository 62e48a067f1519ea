"""OpenClaw's database of one agent: which sessions it holds, and their events, unpacked."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sources.base import Pointer, Turn
from memsearch.sources.cleaning import text_of
from memsearch.sources.jsonl import MAX_OLDER_TURNS
from memsearch.sources.lines import MAX_LINE_BYTES, Record, Shrinker, decode
from memsearch.sources.openclaw_events import PLATFORM, EventFold, read_asked, run_of
from memsearch.sources.sqlite_store import parse, read_json, tables, unknown_schema
from memsearch.sources.times import parse_time

#: Bytes that one packed event may have when it is unpacked; OpenClaw writes up to 4 MiB.
MAX_EVENT_BYTES = 16_000_000
#: Events that are looked up at once.
BATCH_EVENTS = 256
#: More than any event's number.
_NO_EVENT = 1 << 62
#: How sessions came to be that no person began.
_NOT_HUMAN = frozenset({"spawn", "internal"})
#: Bytes that the archive of one session may have; OpenClaw writes up to 64 MiB.
MAX_ARCHIVE_BYTES = 128_000_000


class Window(NamedTuple):
    """A session as the database lists it; ``changed`` is milliseconds since the epoch."""

    id: str
    key: str
    changed: int
    foreign: bool


class Store:
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
        self._cold = "session_transcript_cold_archives" in self._tables

    def windows(self) -> Iterator[Window]:
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
        if self._cold:
            for session, changed in self._db.execute(
                "SELECT session_id, archived_at FROM session_transcript_cold_archives"
                " ORDER BY archived_at, session_id"
            ).fetchall():
                yield self._window(str(session), changed)
        for session, changed in self._db.execute(sql).fetchall():
            yield self._window(str(session), changed)

    def resolve(self, session: str) -> Window | None:
        """A session by its id, or by the key of the conversation that it is the current one of."""
        if "session_nodes" in self._tables and ":" in session:
            row = self._db.execute(
                "SELECT current_session_id FROM session_nodes WHERE session_key = ?", (session,)
            ).fetchone()
            session = str(row[0]) if row is not None else session
        row = self._db.execute(
            "SELECT MAX(created_at) FROM transcript_events WHERE session_id = ?", (session,)
        ).fetchone()
        if row[0] is None and self._cold:
            row = self._db.execute(
                "SELECT MAX(archived_at) FROM session_transcript_cold_archives"
                " WHERE session_id = ?",
                (session,),
            ).fetchone()
        return None if row[0] is None else self._window(session, row[0])

    def _window(self, session: str, changed: object) -> Window:
        known = self._facts("session_windows", "session_id", session)
        key = text_of(known.get("session_key"))
        node = self._facts("session_nodes", "session_key", key) if key else {}
        foreign = (
            ":subagent:" in key
            or bool(known.get("spawned_by") or node.get("spawned_by"))
            or node.get("created_via") in _NOT_HUMAN
        )
        return Window(session, key, changed if isinstance(changed, int) else 0, foreign)

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
        archive = self._archive(session)
        if archive is not None:
            found = [event for event in self._archived(archive) if event[0] >= begin]
            yield from reversed(found) if backward else found
            return
        packed = "length(event_zstd)" if "event_zstd" in self._events else "NULL"
        order, after = ("DESC", "seq < ?") if backward else ("ASC", "seq > ?")
        last = _NO_EVENT if backward else -1
        while True:
            rows = self._db.execute(
                f"SELECT rowid, seq, length(event_json), {packed} FROM transcript_events"
                f" WHERE session_id = ? AND seq >= ? AND {after} AND typeof(seq) = 'integer'"
                f" ORDER BY seq {order} LIMIT ?",
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

    def _archive(self, session: str) -> sqlite3.Row | None:
        if not self._cold:
            return None
        row: sqlite3.Row | None = self._db.execute(
            "SELECT archive_name, archive_blob FROM session_transcript_cold_archives"
            " WHERE session_id = ?",
            (session,),
        ).fetchone()
        return row

    def _archived(self, archive: sqlite3.Row) -> Iterator[tuple[int, Record]]:
        """The events of a session that OpenClaw moved out of its tables.

        With ``session.maintenance.coldStorage`` a session that has rested for weeks lies in
        ``sessions/cold``, or in a field: lines of JSON, packed, of which those of the kind
        ``event`` hold what the table held.

        Raises:
            MemsearchError: ``BAD_FILE`` when the archive is not there or cannot be unpacked.
        """
        import zstandard

        name, packed = archive
        agent = os.path.dirname(os.path.dirname(os.path.abspath(self._path)))
        path = os.path.join(agent, "sessions", "cold", os.path.basename(str(name)))
        try:
            if packed is None:
                with open(path, "rb") as file:
                    packed = file.read(MAX_ARCHIVE_BYTES)
            with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
                data = reader.read(MAX_ARCHIVE_BYTES)
        except (OSError, zstandard.ZstdError) as error:
            raise MemsearchError(
                f"OpenClaw's archive {path} cannot be read ({error})",
                kind=ErrorClass.BAD_FILE,
                hint="restore it from a backup; OpenClaw itself needs it too",
            ) from error
        for line in data.splitlines():
            record = decode(line)
            if not isinstance(record, dict) or record.get("kind") != "event":
                continue
            row = record.get("row")
            seq = row.get("seq") if isinstance(row, dict) else None
            event = parse(row.get("event_json")) if isinstance(row, dict) else None
            if event is None or not isinstance(seq, int):
                self.skipped["not readable"] += 1
            else:
                yield seq, event

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
        self, session: str, pointer: Pointer, start: int | None, not_before: datetime | None
    ) -> int:
        """The first event to read: that of the oldest turn that is asked for."""
        if start is not None:
            return start
        if not_before is None:
            return 0
        wanted, until = pointer.turn, pointer.at
        begin: int | None = None
        newest: int | None = None
        end = 0
        missing, older = True, 0
        names = False  # an alias was passed: the turn before it is meant
        for seq, record in self.events(session, backward=True):
            end = end or seq + 1
            names = names or (wanted is not None and run_of(record) == wanted)
            asked = read_asked(record)
            if asked is None:
                continue
            if wanted is not None:
                names = names or wanted in (asked.id, asked.run)
            elif until is None or asked.at is None or asked.at <= until:
                names = True
            if not asked.opens:
                continue
            newest = seq if newest is None else newest
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
        if missing and wanted is None and newest is not None:
            # None had begun by then: the last one of all is meant.
            begin = newest if begin is None else min(begin, newest)
        return end if begin is None else begin

    def is_ours(self, session: str, is_ours: Callable[[str], bool]) -> bool:
        """Whether a session begins with our own summariser's prompt."""
        for _, record in self.events(session):
            asked = read_asked(record)
            if asked is not None and asked.opens:
                return is_ours(asked.raw)
        return False

    def fold(self, window: Window, pointer: Pointer) -> EventFold:
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
