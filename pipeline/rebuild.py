"""Rebuilding the projections from the log, beside the old ones, and swapping."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator

from memsearch.config import statedb
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline.events import Event, EventType
from memsearch.pipeline.log import EventLog, Transaction

#: Events that are folded in one transaction.
BATCH = 2_000
#: Seconds to wait for another rebuild.
WAIT_SECONDS = 60.0
_SUFFIX = "_rebuilt"


def rebuild(log: EventLog, progress: Callable[[int, int], None] | None = None) -> int:
    """Fold every event anew and put the result in the place of the projections.

    Safe to kill at any moment and beside a running worker: until the last step nobody sees
    the new tables, and that step takes in what was written meanwhile.

    Args:
        log: The event log.
        progress: Called with the events folded and the events there are.

    Returns:
        How many events were folded.
    """
    with _alone(log.path):
        return _rebuild(log, progress)


@contextlib.contextmanager
def _alone(path: str) -> Iterator[None]:
    """Two rebuilds at once would fold into each other's tables; the second waits.

    Raises:
        MemsearchError: ``BUSY`` after ``WAIT_SECONDS``.
    """
    fd = os.open(path + ".rebuild", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + WAIT_SECONDS
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise MemsearchError(
                        "another rebuild is under way", kind=ErrorClass.BUSY
                    ) from error
                time.sleep(0.05)
        yield
    finally:
        os.close(fd)


def _rebuild(log: EventLog, progress: Callable[[int, int], None] | None) -> int:
    with log.transaction() as tx:
        for table, ddl in statedb.PROJECTIONS.items():
            tx.execute(f"DROP TABLE IF EXISTS {table}{_SUFFIX}")
            tx.execute(ddl.format(suffix=_SUFFIX))
    done, total, folded = 0, int(log.value("SELECT COUNT(*) FROM events") or 0), 0
    while True:
        with log.transaction() as tx:
            number, done = _fold_batch(tx, done)
        folded += number
        if progress is not None:
            progress(folded, max(total, folded))
        if number < BATCH:
            break
    with log.transaction() as tx:
        number = BATCH
        while number == BATCH:
            number, done = _fold_batch(tx, done)
            folded += number
        for table in statedb.PROJECTIONS:
            tx.execute(f"DROP TABLE IF EXISTS {table}")
            tx.execute(f"ALTER TABLE {table}{_SUFFIX} RENAME TO {table}")
        for index in statedb.PROJECTION_INDEXES:
            tx.execute(index)
    return folded


def _fold_batch(tx: Transaction, after: int) -> tuple[int, int]:
    rows = tx.rows(
        "SELECT e.*, p.body FROM events AS e LEFT JOIN payloads AS p ON p.event_id = e.id"
        " WHERE e.seq > ? ORDER BY e.seq LIMIT ?",
        (after, BATCH),
    )
    for row in rows:
        event = Event(
            stream=row["stream"],
            type=EventType(row["type"]),
            data=json.loads(row["data"]),
            body=row["body"],
            id=row["id"],
            at=row["at"],
            seq=row["seq"],
        )
        tx.fold(event, _SUFFIX)
    return len(rows), (rows[-1]["seq"] if rows else after)


#: Tables that cannot be empty once there is such an event with such a fact.
_EVIDENCE = (
    ("usage", "TurnSummarized", "$.usage.day"),
    ("projects", "DocumentChanged", "$.project.memory_dir"),
    ("transcripts", "HookCaptured", "$.resume"),
    ("progress", "TurnAppended", "$.path"),
)


def is_whole(log: EventLog) -> bool:
    """Whether the projections hold every stream that the log knows, told by counting.

    False after a table was deleted or emptied by somebody else.
    """
    present = {row["name"] for row in log.rows("SELECT name FROM sqlite_master WHERE type='table'")}
    if not present.issuperset(statedb.PROJECTIONS):
        return False
    for table, types in (
        ("hooks", ("HookReceived",)),
        ("turns", ("TurnCaptured", "TurnSkipped", "TurnForgotten")),
        ("documents", ("DocumentChanged",)),
    ):
        marks = ", ".join("?" * len(types))
        streams = log.value(
            f"SELECT COUNT(DISTINCT stream) FROM events WHERE type IN ({marks})", types
        )
        if streams != log.value(f"SELECT COUNT(*) FROM {table}"):
            return False
    for table, kind, fact in _EVIDENCE:
        if log.row(f"SELECT 1 FROM {table} LIMIT 1") is None and log.row(
            "SELECT 1 FROM events WHERE type = ? AND json_extract(data, ?) IS NOT NULL LIMIT 1",
            (kind, fact),
        ):
            return False
    return True
