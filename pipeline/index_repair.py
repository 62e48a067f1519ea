"""The index compared with what the log says of it, and made anew where it differs."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.project import Project
from memsearch.pipeline.events import EventType
from memsearch.pipeline.stages.append import document_changed

if TYPE_CHECKING:
    import sqlite3

    from memsearch.pipeline.engine import Engine
    from memsearch.pipeline.log import Transaction


def remake_missing(engine: Engine) -> int:
    """Queue what was indexed when the index's folder is gone or another one; opens nothing.

    Returns:
        How many documents were queued.
    """
    if engine.index_was_taken_away():
        engine.let_go()
    if engine.has_index():
        return 0
    return requeue(
        engine, engine.log.rows("SELECT * FROM documents WHERE state = 'done' AND chunks > 0")
    )


def mend_damaged(engine: Engine, *, thorough: bool = False) -> int:
    """Make anew what of Milvus Lite's files is damaged; opens nothing while they look whole.

    Args:
        engine: The engine.
        thorough: Open the index and count, however its files look.

    Returns:
        How many documents were queued.

    Raises:
        MemsearchError: As ``verify``.
    """
    from memsearch.sinks import lite_files
    from memsearch.sinks.store import index_uri

    uri = index_uri(engine.settings().milvus, engine.home, engine.environ)
    return verify(engine) if thorough or lite_files.fault(uri) else 0


def verify(engine: Engine) -> int:
    """Queue every document whose rows in the store are not as many as the log says.

    Milvus Lite can lose rows without a word when its files are damaged, and somebody may
    have deleted them.

    Args:
        engine: The engine; its store is opened.

    Returns:
        How many documents were queued.

    Raises:
        MemsearchError: The store cannot be read, for another reason than damage.
    """
    rows = engine.log.rows("SELECT * FROM documents WHERE state = 'done' AND chunks > 0")
    if not rows:
        return 0
    try:
        counts = _counts(engine, {row["collection"] for row in rows})
    except MemsearchError as error:
        if not engine.is_index_damage(error):
            raise
        return put_aside(engine, error)
    # What is in a collection that is built aside is counted before it is swapped in.
    aside = {
        (row["collection"], row["identity"])
        for row in engine.log.rows("SELECT collection, identity FROM renewals")
    }
    wrong = [
        row
        for row in rows
        if (row["collection"], row["identity"]) not in aside
        and counts[row["collection"]].get(row["source"], 0) != row["chunks"]
    ]
    return requeue(engine, wrong)


def _counts(engine: Engine, collections: set[str]) -> dict[str, dict[str, int]]:
    if not engine.has_index():
        return {name: {} for name in collections}
    store = engine.store()
    return {name: store.counts(name) if store.exists(name) else {} for name in sorted(collections)}


def put_aside(engine: Engine, error: MemsearchError) -> int:
    """Move a damaged Milvus Lite folder away and begin a new one; the vectors are in the cache.

    It is moved, not deleted: other programs may keep collections in it.

    Returns:
        How many documents were queued.
    """
    from memsearch.sinks.store import index_uri

    path = index_uri(engine.settings().milvus, engine.home, engine.environ)
    engine.let_go()
    aside = f"{path}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
    if "://" in path or not os.path.exists(path):
        raise error  # a server's damage is its owner's to mend
    try:
        os.rename(path, aside)
    except OSError as failure:
        raise MemsearchError(
            f"{path} is damaged and cannot be moved away: {failure.strerror}",
            kind=ErrorClass.PERMISSION,
            hint="move it away by hand; the index is made anew from the Markdown",
        ) from failure
    engine.let_go()  # a search may have opened it again before it was moved
    engine.note("index_put_aside", level="error", aside=aside, error=error.message)
    rows = engine.log.rows("SELECT * FROM documents WHERE state IN ('done', 'dead')")
    return requeue(engine, rows)


def requeue(engine: Engine, rows: list[sqlite3.Row], cause: str = "verify") -> int:
    """Send documents through the index stages, whatever the log believed of them."""
    if not rows:
        return 0
    with engine.log.transaction() as tx:
        for row in rows:
            project = _project_of(tx, row)
            event = document_changed(project, row["source"], row["path"], cause, force=True)
            tx.append(event)
            tx.add_task("chunk", event.stream)
    if cause == "verify":
        engine.note("index_differs", level="warning", documents=len(rows))
    return len(rows)


def _project_of(tx: Transaction, row: sqlite3.Row) -> Project:
    """The project of a document as its last change names it.

    Not by its collection: several projects may share one, and each has its own folder that
    sources are relative to.
    """
    found = tx.row(
        "SELECT data FROM events WHERE stream = ? AND type = ? ORDER BY seq DESC LIMIT 1",
        (row["stream"], EventType.DOCUMENT_CHANGED.value),
    )
    data = json.loads(found["data"])["project"] if found is not None else {}
    root = data.get("root") or row["project"] or os.path.dirname(row["path"])
    return Project(
        root=root,
        memory_dir=data.get("memory_dir") or os.path.dirname(row["path"]),
        base=data.get("base") or root,
        collection=row["collection"],
    )
