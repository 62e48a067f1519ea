"""Entries that an editor's save swept away within a minute of their append.

A person who deletes an entry means it, and it stays deleted. But an editor that had the file
open before the append and saves it whole afterwards loses the entry without anybody having
seen it: such an entry is appended once more, and only once.
"""

from __future__ import annotations

import json
import os
from datetime import date
from typing import TYPE_CHECKING

from memsearch.config import statedb
from memsearch.pipeline.events import EventType
from memsearch.pipeline.stages.append import append_entry, project_of
from memsearch.pipeline.status import epoch
from memsearch.sinks import journal

if TYPE_CHECKING:
    from memsearch.pipeline.engine import Engine

#: Seconds after an append within which a vanished entry counts as lost.
WINDOW_SECONDS = 60.0
#: Seconds back that appends are looked at; more than the window, for a worker that slept.
LOOK_BACK_SECONDS = 3 * WINDOW_SECONDS


def append_lost(engine: Engine, now: float) -> int:
    """Append the entries that were lost once more.

    Args:
        engine: The engine.
        now: Seconds since the epoch.

    Returns:
        How many were lost.
    """
    lost = 0
    for row in engine.log.rows(
        "SELECT stream, at, data FROM events WHERE type = ? AND at >= ?",
        (EventType.TURN_APPENDED.value, statedb.utc_now(now - LOOK_BACK_SECONDS)),
    ):
        data = json.loads(row["data"])
        turn = engine.log.row("SELECT * FROM turns WHERE stream = ?", (row["stream"],))
        if turn is None or turn["state"] != "done" or data.get("again"):
            continue
        if not _saved_within(data["path"], epoch(row["at"])):
            continue
        project = project_of(turn)
        if journal.contains(
            project.memory_dir,
            date.fromisoformat(turn["day"]),
            turn["session"],
            turn["turn"],
            archive_dir=project.archive_dir,
        ):
            continue
        appended = engine.log.value(
            "SELECT COUNT(*) FROM events WHERE stream = ? AND type = ?",
            (row["stream"], EventType.TURN_APPENDED.value),
        )
        if appended == 1:
            append_entry(engine, turn, again=True)
            engine.note("entry_was_lost", level="warning", stream=row["stream"])
            lost += 1
    return lost


def _saved_within(path: str, appended: float) -> bool:
    """Whether the file was last written within the window after the append.

    A file that is gone was taken away by somebody who meant it.
    """
    try:
        saved = os.stat(path).st_mtime
    except OSError:
        return False
    return saved <= appended + WINDOW_SECONDS
