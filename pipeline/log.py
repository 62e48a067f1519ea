"""The event log: the truth of the work, its projections and the tasks it causes, in one file.

Every write goes through :meth:`EventLog.transaction`: the event, the projections folded from
it and the next stage's task commit together or not at all. Huey's storage uses the same lock
(``pipeline.queue``), so that within a process nobody waits for SQLite's own busy handler.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from memsearch.config import statedb
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline.events import Event, EventType
from memsearch.pipeline.projections import fold

#: Milliseconds that a connection waits for another process's write transaction.
BUSY_MILLISECONDS = 15_000
#: Milliseconds that a checkpoint waits for those who read and write at the moment.
CHECKPOINT_MILLISECONDS = 200

#: Which queue a stage's tasks go to; the others to ``statedb.QUEUE``.
SUMMARY_STAGE = "summarize"


def queue_of(stage: str) -> str:
    """The Huey queue that a stage's tasks go to."""
    return statedb.SUMMARY_QUEUE if stage == SUMMARY_STAGE else statedb.QUEUE


class Transaction:
    """One write transaction: events, tasks and the reads they rest on."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[sqlite3.Row]:
        """All rows of a query, read to the end (an open cursor keeps the WAL growing)."""
        return self._db.execute(sql, parameters).fetchall()

    def row(self, sql: str, parameters: Sequence[object] = ()) -> sqlite3.Row | None:
        """The first row of a query, or None."""
        rows = self.rows(sql, parameters)
        return rows[0] if rows else None

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> int:
        """Run a statement that is not part of the log; returns the rows it changed."""
        return self._db.execute(sql, parameters).rowcount

    def append(self, event: Event) -> Event:
        """Write an event, its text and what the projections make of it.

        Returns:
            The event with its place in the log.
        """
        cursor = self._db.execute(
            statedb.INSERT_EVENT,
            (
                event.id,
                event.stream,
                event.type.value,
                event.at,
                json.dumps(event.data, ensure_ascii=False),
            ),
        )
        if event.body is not None:
            self._db.execute(statedb.INSERT_PAYLOAD, (event.id, event.body))
        event = dataclasses.replace(event, seq=cursor.lastrowid or 0)
        fold(self._db, event)
        return event

    def create_schema(self) -> None:
        """Create what is missing of the file's layout."""
        statedb.create_schema(self._db)

    def fold(self, event: Event, suffix: str) -> None:
        """Take a written event into the tables of a rebuild."""
        fold(self._db, event, suffix=suffix)

    def add_task(self, stage: str, key: str, due: float | None = None) -> None:
        """Queue a stage for a key, at once or at ``due`` (seconds since the epoch)."""
        queue, data = queue_of(stage), statedb.task_row(stage, key)
        if due is None:
            self._db.execute(statedb.INSERT_TASK, (queue, data, statedb.PRIORITY[stage]))
        else:
            self._db.execute(
                "INSERT INTO schedule(queue, data, timestamp) VALUES (?, ?, ?)", (queue, data, due)
            )

    def insert_hook(self, record: dict[str, object]) -> None:
        """Take in a hook as it lies in the spool; one that is known already is left."""
        statedb.insert_hook(self._db, record)

    def drop_payload(self, event_id: str) -> None:
        """Forget the text of an event; the fact stays."""
        self._db.execute("DELETE FROM payloads WHERE event_id = ?", (event_id,))


class EventLog:
    """``state.db`` opened for the pipeline. Thread-safe: one connection a thread.

    Args:
        path: The database; it is created when missing.

    Raises:
        MemsearchError: ``DAMAGED`` when the file is no sound database, ``CONFIG`` when a
            newer memsearch wrote it, ``PERMISSION``, ``DISK_FULL``, ``BUSY``.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        #: Held by every write transaction of this process, Huey's too.
        self.write_lock = threading.RLock()
        #: Set when a table was missing: the worker looks at once what somebody deleted.
        self.trouble = threading.Event()
        #: Set while traces of a hook's message may lie in free pages or in the WAL.
        self.unwiped = threading.Event()
        self.unwiped.set()
        self._local = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._closed = False
        with translated(path):
            self._create()

    def _create(self) -> None:
        db = self._connection()
        version = statedb.user_version(db)
        if version > statedb.SCHEMA_VERSION:
            raise MemsearchError(
                f"{self.path} was written by a newer memsearch (layout {version})",
                kind=ErrorClass.CONFIG,
                hint="upgrade memsearch, or set MEMSEARCH_HOME to another folder",
            )
        if version < statedb.SCHEMA_VERSION:
            self.create_missing()

    def create_missing(self) -> None:
        """Create the tables that are not there: all in a new file, or what somebody deleted."""
        with self.transaction() as tx:
            tx.create_schema()

    def _connection(self) -> sqlite3.Connection:
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if self._closed:
            # A thread that outlived the shutdown must not write what its own end made fail.
            raise MemsearchError(f"{self.path} is closed", kind=ErrorClass.BUSY)
        if db is None:
            fresh = not os.path.exists(self.path)
            # Closed from another thread at the end, hence check_same_thread.
            db = sqlite3.connect(
                self.path,
                timeout=BUSY_MILLISECONDS / 1000,
                isolation_level=None,
                check_same_thread=False,
            )
            if fresh:
                os.chmod(self.path, 0o600)
            db.row_factory = sqlite3.Row
            # A new database needs a moment's exclusive lock to become WAL.
            deadline = time.monotonic() + BUSY_MILLISECONDS / 1000
            while True:
                try:
                    db.execute("PRAGMA journal_mode = WAL").fetchone()
                    break
                except sqlite3.OperationalError as error:
                    if "locked" not in str(error) or time.monotonic() > deadline:
                        db.close()
                        raise
                    time.sleep(0.01)
            # After a power cut a stage may repeat; hooks commit with FULL and are never lost.
            db.execute("PRAGMA synchronous = NORMAL")
            # A text that is dropped must not lie on in a free page.
            db.execute("PRAGMA secure_delete = ON").fetchone()
            self._local.db = db
            with self.write_lock:
                self._all.append(db)
        return db

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A write transaction; it commits at the end of the block and rolls back on an error.

        No model call, file write or other effect may happen inside: every other writer waits.
        """
        with self.write_lock, self._told():
            db = self._connection()
            db.execute("BEGIN IMMEDIATE")
            try:
                yield Transaction(db)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[sqlite3.Row]:
        """All rows of a query."""
        with self._told():
            return self._connection().execute(sql, parameters).fetchall()

    def row(self, sql: str, parameters: Sequence[object] = ()) -> sqlite3.Row | None:
        """The first row of a query, or None."""
        rows = self.rows(sql, parameters)
        return rows[0] if rows else None

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            with translated(self.path):
                yield
        except MemsearchError as error:
            if is_missing_table(error.message):
                self.trouble.set()
            raise

    def value(self, sql: str, parameters: Sequence[object] = ()) -> Any:
        """The first column of the first row, or None."""
        row = self.row(sql, parameters)
        return row[0] if row is not None else None

    def payload(self, event_id: str) -> str | None:
        """The text that belongs to an event; None when there is none (any more)."""
        value = self.value("SELECT body FROM payloads WHERE event_id = ?", (event_id,))
        return str(value) if value is not None else None

    def events(self, stream: str) -> list[Event]:
        """The events of one stream, oldest first, without their texts."""
        return [
            event_of(row)
            for row in self.rows("SELECT * FROM events WHERE stream = ? ORDER BY seq", (stream,))
        ]

    def checkpoint(self) -> bool:
        """Write the WAL back into the database and cut it to nothing, if nobody reads.

        Returns:
            Whether nothing is left in the WAL.
        """
        with self.write_lock, translated(self.path):
            db = self._connection()
            # It holds hooks up while it waits for a reader; the next call comes soon enough.
            db.execute(f"PRAGMA busy_timeout = {CHECKPOINT_MILLISECONDS}").fetchall()
            try:
                rows = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                db.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}").fetchall()
        return bool(rows) and rows[0][0] == 0

    def vacuum(self) -> None:
        """Write the whole file anew, so that nothing deleted is left in its pages."""
        with self.write_lock, translated(self.path):
            self._connection().execute("VACUUM").fetchall()

    def close(self) -> None:
        """Close the connections of all threads."""
        with self.write_lock:
            self._closed = True
            for db in self._all:
                db.close()
            self._all.clear()
            self._local = threading.local()


def event_of(row: sqlite3.Row) -> Event:
    """An event from its row in the log."""
    return Event(
        stream=row["stream"],
        type=EventType(row["type"]),
        data=json.loads(row["data"]),
        id=row["id"],
        at=row["at"],
        seq=row["seq"],
    )


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Tell SQLite's errors apart by what can be done about them."""
    try:
        yield
    except sqlite3.Error as error:
        raise sqlite_error(error, path) from error


def sqlite_error(error: sqlite3.Error, path: str) -> MemsearchError:
    """The failure of a database of ours in our own words."""
    code = getattr(error, "sqlite_errorname", "") or ""
    text = f"{path}: {error}"
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return MemsearchError(text, kind=ErrorClass.BUSY, hint="another process holds it")
    if code.startswith("SQLITE_FULL"):
        return MemsearchError(text, kind=ErrorClass.DISK_FULL, hint="free some space")
    if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return MemsearchError(
            text, kind=ErrorClass.PERMISSION, hint="check its owner and permissions"
        )
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return MemsearchError(
            text,
            kind=ErrorClass.DAMAGED,
            hint="memsearch workers restart puts the last good copy in its place",
        )
    if code.startswith("SQLITE_IOERR"):
        return MemsearchError(text, kind=ErrorClass.SERVER, hint="check the disk")
    if is_missing_table(text):
        return MemsearchError(text, kind=ErrorClass.BUSY, hint="a worker puts it back")
    return MemsearchError(text, kind=ErrorClass.BUG)


def is_missing_table(text: str) -> bool:
    """Whether an error says that somebody deleted a table of ours."""
    return "no such table" in text
