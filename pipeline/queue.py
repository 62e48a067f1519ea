"""Huey on ``state.db``: the shadow of the log that tells a worker what to do now.

What Huey is not asked to do, because the log does it (see ``docs/architecture.md``): results,
locks, retries, etas, timeouts. A row of ``task`` or ``schedule`` may be lost at any moment;
recovery reads the projections and queues the stage again.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any

from huey import Huey
from huey.consumer import Consumer
from huey.registry import Message
from huey.storage import SqliteStorage

from memsearch.config import statedb
from memsearch.pipeline.log import EventLog, Transaction, is_missing_table, queue_of

#: Seconds between two looks of an idle consumer thread into its queue, when it has one other
#: beside it. More threads look so much less often each: the queue is looked into as often.
POLL_SECONDS = 0.1


class JsonSerializer:
    """Huey's messages as JSON objects by field name.

    A hook writes such a row without importing Huey. Fields that are not known are dropped and
    missing ones take Huey's defaults, so that rows outlive an upgrade of either side.
    """

    def serialize(self, data: Any) -> bytes:
        """A message as bytes; every field that is set, by its name."""
        fields = data._asdict() if isinstance(data, Message) else data
        kept = {name: value for name, value in fields.items() if value is not None}
        return json.dumps(kept, ensure_ascii=False).encode("utf-8")

    def deserialize(self, data: bytes | memoryview) -> Any:
        """The message in a row.

        Raises:
            ValueError: It is not one; Huey drops the row and the sweep finds its stream.
        """
        fields = json.loads(bytes(data))
        if not isinstance(fields, dict):
            raise ValueError("a task row is a JSON object")
        return Message(**{k: v for k, v in fields.items() if k in Message._fields})


class LogStorage(SqliteStorage):  # type: ignore[misc]
    """Huey's tables inside the log's file, written under the log's lock."""

    begin_sql = "begin immediate"

    def __init__(self, name: str, log: EventLog) -> None:
        self._log = log
        # fsync=None leaves WAL's NORMAL: a lost row comes back from the projections.
        super().__init__(name, filename=log.path, timeout=15, create_tables=False)

    def _create_connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection = super()._create_connection()
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    @contextlib.contextmanager
    def db(self, commit: bool = False, close: bool = False) -> Iterator[sqlite3.Cursor]:
        with contextlib.ExitStack() as stack:
            if commit:
                stack.enter_context(self._log.write_lock)
            yield stack.enter_context(super().db(commit=commit, close=close))

    def read_schedule(self, ts: object) -> list[bytes]:  # noqa: ARG002
        """Move what is due into the queue, in one transaction.

        Huey's own way deletes the rows first and queues them one by one after: a kill in
        between loses them. It also passes a naive UTC time for a local one, so the clock is
        read here. Nothing is left for the caller to queue.
        """
        now = time.time()
        due = "SELECT 1 FROM schedule WHERE queue = ? AND timestamp <= ? LIMIT 1"
        try:
            if not self.sql(due, (self.name, now), results=True):
                return []
        except sqlite3.OperationalError as error:
            if not is_missing_table(str(error)):
                raise
            self._log.trouble.set()
            return []
        with self.db(commit=True) as cursor:
            cursor.execute(
                "SELECT id, data FROM schedule WHERE queue = ? AND timestamp <= ?"
                " ORDER BY timestamp, id",
                (self.name, now),
            )
            for row, data in cursor.fetchall():
                priority = _priority(data)
                cursor.execute(statedb.INSERT_TASK, (self.name, data, priority))
                cursor.execute("DELETE FROM schedule WHERE id = ?", (row,))
        return []

    def dequeue(self) -> bytes | None:
        """The next row; none while the table is gone, which the worker makes anew."""
        try:
            found: bytes | None = super().dequeue()
        except sqlite3.OperationalError as error:
            if not is_missing_table(str(error)):
                raise
            self._log.trouble.set()
            return None
        return found

    # Tasks are never revoked: without this each one would cost two reads and a write.
    def peek_many(self, keys: object) -> dict[str, bytes]:  # noqa: ARG002
        return {}

    def delete_data(self, key: object) -> bool:  # noqa: ARG002
        return False


def _priority(data: bytes) -> float:
    try:
        return float(json.loads(data).get("priority") or 0.0)
    except (ValueError, AttributeError, TypeError):
        return 0.0


class QuietConsumer(Consumer):  # type: ignore[misc]
    """A consumer beside others in one process: signals are the process's business."""

    def _set_signal_handlers(self) -> None:
        return


def make_huey(name: str, log: EventLog) -> Huey:
    """A Huey whose queue lies in the log's file.

    Args:
        name: ``statedb.QUEUE`` or ``statedb.SUMMARY_QUEUE``.
        log: The open log.
    """

    class LogHuey(Huey):  # type: ignore[misc]
        def get_storage(self, **kwargs: Any) -> LogStorage:  # noqa: ARG002
            return LogStorage(self.name, log)

    return LogHuey(name, results=False, serializer=JsonSerializer(), utc=True)


def register(hueys: dict[str, Huey], run: Callable[[str, str], None]) -> None:
    """Register every stage as a task of its queue.

    Args:
        hueys: By queue name.
        run: Called with the stage and the key of the work.
    """
    for stage in statedb.PRIORITY:

        def task(key: str, _stage: str = stage) -> None:
            run(_stage, key)

        task.__name__ = stage
        task.__module__ = __name__
        hueys[queue_of(stage)].task(name=stage)(task)


def make_consumer(huey: Huey, threads: int) -> QuietConsumer:
    """A consumer with so many threads; it is started and stopped by the worker."""
    poll = POLL_SECONDS * max(1.0, threads / 2)
    return QuietConsumer(
        huey,
        workers=threads,
        periodic=False,
        initial_delay=poll,
        max_delay=poll,
        backoff=1.0,
        scheduler_interval=1,
        check_worker_health=True,
        shutdown_timeout=5,
        graceful_signal="TERM",
    )


def flush(tx: Transaction) -> None:
    """Empty both queues and their schedules; recovery fills them again from the projections."""
    for queue in (statedb.QUEUE, statedb.SUMMARY_QUEUE):
        tx.execute("DELETE FROM task WHERE queue = ?", (queue,))
        tx.execute("DELETE FROM schedule WHERE queue = ?", (queue,))
