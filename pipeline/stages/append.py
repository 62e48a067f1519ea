"""append: a session's summarised turns go into the journal, in their order."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from datetime import date
from typing import TYPE_CHECKING

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import close_to_others, make_private_folder
from memsearch.config.project import Project, source_of
from memsearch.pipeline.events import (
    Event,
    EventType,
    document_stream,
    split_session_key,
)
from memsearch.pipeline.turn_codec import load_bullets, load_turn
from memsearch.sinks import journal
from memsearch.sinks.ids import content_hash
from memsearch.sinks.journal_format import clean_bullet
from memsearch.sinks.types import Anchor, Entry

if TYPE_CHECKING:
    import sqlite3

    from memsearch.pipeline.engine import Engine
    from memsearch.sources.base import Turn

_FIRST_OPEN = (
    "SELECT * FROM turns WHERE state = 'open' AND platform = ? AND session = ?"
    " ORDER BY at, position, stream LIMIT 1"
)


def append(engine: Engine, key: str) -> None:
    """Append the summarised turns of one session while the first open one is summarised.

    An earlier turn that is still being summarised, or waits for a retry, holds the later
    ones back, so that a day's file tells a session in its order.

    Args:
        engine: The engine; it runs this stage once at a time for a session.
        key: The session's key.
    """
    session = split_session_key(key)
    while not engine.stop.is_set():
        row = engine.log.row(_FIRST_OPEN, session)
        if row is None or row["stage"] != "append":
            return
        if row["due"] and row["due"] > time.time():
            return
        before = row["seq"]
        with engine.failing("append", row, key):
            append_entry(engine, row)
        after = engine.log.value("SELECT seq FROM turns WHERE stream = ?", (row["stream"],))
        if after == before:
            return


def append_entry(engine: Engine, row: sqlite3.Row, *, again: bool = False) -> None:
    """Write one turn's entry and say so in the log.

    Args:
        engine: The engine.
        row: The turn's state.
        again: An editor swept the entry away; it is known to have been there.

    Raises:
        MemsearchError: What the journal could not do.
    """
    turn_text = engine.log.payload(row["captured_id"])
    notes_text = engine.log.payload(row["summarized_id"])
    if turn_text is None or notes_text is None:
        raise MemsearchError("the turn's notes are no longer in the log", kind=ErrorClass.BAD_FILE)
    turn = load_turn(turn_text)
    bullets = load_bullets(notes_text)
    project = project_of(row)
    if not os.path.isdir(project.root) and project.root != engine.home.unfiled:
        # A folder that is gone must not come back because of us.
        raise MemsearchError(
            f"the project folder {project.root} is gone",
            kind=ErrorClass.BAD_FILE,
            hint="put it back, then memsearch dead-letter replay",
        )
    unfiled = project.root == engine.home.unfiled
    if unfiled and not make_private_folder(project.root):
        close_to_others(project.root)
    suffix = engine.settings(project.root).capture.journal_suffix
    result = journal.append(
        project.memory_dir,
        Entry(
            session=turn.session,
            turn=turn.id,
            day=date.fromisoformat(row["day"]),
            time=row["time"],
            anchor=anchor_of(turn),
            bullets=bullets,
        ),
        suffix=suffix,
        archive_dir=project.archive_dir,
        lock_dir=engine.home.run,
    )
    if unfiled:
        close_to_others(result.path)
    source = source_of(project, result.path)
    marks = {"again": True} if again else {}
    with engine.commit(row) as tx:
        if tx is None:
            return
        tx.append(
            Event(
                row["stream"],
                EventType.TURN_APPENDED,
                {
                    "path": result.path,
                    "written": result.written,
                    "notes": notes_hash(bullets),
                    **marks,
                },
            )
        )
        stream = document_stream(project.collection, source)
        tx.append(document_changed(project, source, result.path, "append"))
        tx.add_task("chunk", stream)


def notes_hash(bullets: Iterable[str]) -> str:
    """By which an entry is known later as what was written, or as edited by a person."""
    clean = [clean_bullet(text) for text in bullets]
    return content_hash("\n".join(text for text in clean if text))


def anchor_of(turn: Turn) -> Anchor:
    """Where the journal says that the turn's own words lie."""
    places = dict(turn.anchor)
    return Anchor(
        session=turn.session,
        turn=turn.id,
        platform=turn.platform,
        transcript=places.get("transcript", ""),
        rollout=places.get("rollout", ""),
        db=places.get("db", ""),
    )


def project_of(row: sqlite3.Row) -> Project:
    """The project that a turn was captured for."""
    return Project(
        root=row["project"],
        memory_dir=row["memory_dir"],
        base=row["base"],
        collection=row["collection"],
    )


def project_data(project: Project) -> dict[str, str]:
    """A project as it is written in events."""
    return {
        "root": project.root,
        "memory_dir": project.memory_dir,
        "base": project.base,
        "collection": project.collection,
    }


def document_changed(
    project: Project, source: str, path: str, cause: str, *, force: bool = False
) -> Event:
    """The event that sends a document through the index stages.

    Args:
        project: Whose document it is.
        source: As the index names it.
        path: Where it lies.
        cause: Why, for the log.
        force: Write it anew even if its text is what was indexed.
    """
    return Event(
        document_stream(project.collection, source),
        EventType.DOCUMENT_CHANGED,
        {
            "collection": project.collection,
            "source": source,
            "path": path,
            "project": project_data(project),
            "cause": cause,
        }
        | ({"force": True} if force else {}),
    )
