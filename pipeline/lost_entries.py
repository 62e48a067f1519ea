"""Entries that an editor's save swept away within a minute of their append.

A person who deletes an entry means it, and it stays deleted. But an editor that had the file
open before the append and saves it whole afterwards loses the entry without anybody having
seen it: such an entry is appended once more, and only once.
"""

from __future__ import annotations

import json
import os
from datetime import date
from typing import TYPE_CHECKING, Any

from memsearch.config import statedb
from memsearch.config.errors import MemsearchError
from memsearch.pipeline.events import EventType
from memsearch.pipeline.stages.append import append_entry, project_of
from memsearch.pipeline.status import epoch
from memsearch.sinks import journal

if TYPE_CHECKING:
    import sqlite3

    from memsearch.pipeline.engine import Engine

#: Seconds after an append within which a vanished entry counts as lost.
WINDOW_SECONDS = 60.0
#: Seconds back that appends are looked at; more than the window, for a worker that slept.
LOOK_BACK_SECONDS = 3 * WINDOW_SECONDS
#: Appends that are looked at, at the most; the newest.
MOST_APPENDS = 1_000


def append_lost(engine: Engine, now: float) -> int:
    """Append the entries that were lost once more.

    Args:
        engine: The engine.
        now: Seconds since the epoch.

    Returns:
        How many were lost.
    """
    since = statedb.utc_now(now - LOOK_BACK_SECONDS)
    # By the log's order, which has an index; by their time the whole log would be read.
    rows = engine.log.rows(
        "SELECT seq, stream, at, data FROM events WHERE type = ? ORDER BY seq DESC LIMIT ?",
        (EventType.TURN_APPENDED.value, MOST_APPENDS),
    )
    appends = [(row, json.loads(row["data"])) for row in rows if row["at"] >= since]
    seen: dict[str, object] = engine.part("journals looked at for lost entries", dict)
    changed = _changed(seen, {data["path"] for _, data in appends}, rows[0]["seq"] if rows else 0)
    try:
        return sum(
            _append_if_lost(engine, row, data)
            for row, data in reversed(appends)
            if data["path"] in changed
        )
    except MemsearchError:
        seen.clear()  # looked at again, though nothing has changed
        raise


def _append_if_lost(engine: Engine, row: sqlite3.Row, data: dict[str, Any]) -> int:
    turn = engine.log.row("SELECT * FROM turns WHERE stream = ?", (row["stream"],))
    if turn is None or turn["state"] != "done" or data.get("again"):
        return 0
    if not _saved_within(data["path"], epoch(row["at"])):
        return 0
    project = project_of(turn)
    if journal.contains(
        project.memory_dir,
        date.fromisoformat(turn["day"]),
        turn["session"],
        turn["turn"],
        archive_dir=project.archive_dir,
    ):
        return 0
    appended = engine.log.value(
        "SELECT COUNT(*) FROM events WHERE stream = ? AND type = ?",
        (row["stream"], EventType.TURN_APPENDED.value),
    )
    if appended != 1:
        return 0
    append_entry(engine, turn, again=True)
    engine.note("entry_was_lost", level="warning", stream=row["stream"])
    return 1


def _changed(seen: dict[str, object], paths: set[str], last: int) -> set[str]:
    """The files that are not as they were at the last look, or may have been appended to."""
    changed = set()
    for path in paths:
        try:
            state = os.stat(path)
        except OSError:
            continue  # one that is gone was taken away by somebody who meant it
        stamp = (state.st_ino, state.st_mtime_ns, state.st_size, last)
        if seen.get(path) != stamp:
            changed.add(path)
        seen[path] = stamp
    return changed


def _saved_within(path: str, appended: float) -> bool:
    """Whether the file was last written within the window after the append.

    A file that is gone was taken away by somebody who meant it.
    """
    try:
        saved = os.stat(path).st_mtime
    except OSError:
        return False
    return saved <= appended + WINDOW_SECONDS
