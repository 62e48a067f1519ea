"""Which files of some folders are indexed, and taking out of the index what no longer is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memsearch.pipeline import languages
from memsearch.pipeline.events import Event, EventType
from memsearch.sinks.documents import Walk, walk
from memsearch.sinks.ignoring import Rules

if TYPE_CHECKING:
    from memsearch.config.project import Project
    from memsearch.config.schema import Indexing
    from memsearch.pipeline.engine import Engine


def walk_for(project: Project, paths: Sequence[str], indexing: Indexing) -> Walk:
    """The documents that paths name.

    Ignore files have no word on a project's own memory, which many a ``.gitignore`` lists.

    Args:
        project: Whose.
        paths: Absolute; see ``documents.walk``.
        indexing: The project's settings.
    """
    memory = [path for path in paths if is_memory(project, path)]
    own = walk(memory, indexing.exclude)
    rest = walk(
        [path for path in paths if path not in memory],
        indexing.exclude,
        ignore_files=indexing.ignore_files,
        ceiling=project.root,
    )
    return Walk(
        tuple(sorted({*own.files, *rest.files})),
        own.unreadable + rest.unreadable,
        own.folders + rest.folders,
        own.rules + rest.rules,
    )


def rules_for(project: Project, root: str, indexing: Indexing) -> Rules:
    """What ``walk_for`` leaves out below one folder."""
    if is_memory(project, root):
        return Rules(root, indexing.exclude)
    return Rules(root, indexing.exclude, indexing.ignore_files, project.root)


def is_memory(project: Project, path: str) -> bool:
    """Whether a path is, or lies in, a project's memory folder or its archive."""
    folders = (project.memory_dir, project.archive_dir)
    real = os.path.realpath(path)
    return any(
        each == folder or each.startswith(os.path.join(folder, ""))
        for folder in folders
        for each in (path, real)
    )


def drop_excluded(engine: Engine, project: Project, found: Walk) -> int:
    """Take out of the index what a pattern has left out of the named folders since.

    Args:
        engine: The engine.
        project: Whose collection.
        found: From ``walk_for``.

    Returns:
        How many documents.
    """
    rows = [
        row
        for row in engine.log.rows(
            "SELECT stream, source, path, change FROM documents WHERE collection = ?"
            " AND state NOT IN ('open', 'removed')",
            (project.collection,),
        )
        if found.excludes(row["path"]) and os.path.exists(row["path"])
    ]
    if not rows:
        return 0
    if engine.has_index() and engine.store().exists(project.collection):
        store = engine.store()
        for row in rows:
            ids = store.ids(project.collection, row["source"])
            if ids:
                store.delete(project.collection, sorted(ids))
    with engine.log.transaction() as tx:
        for row in rows:
            languages.remove(tx, row["stream"])
            facts = {"change": row["change"], "reason": "excluded"}
            tx.append(Event(row["stream"], EventType.DOCUMENT_REMOVED, facts))
    return len(rows)
