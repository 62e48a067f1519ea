"""Reconciling: what changed in the folders of known projects while nobody looked."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

from memsearch.config.errors import MemsearchError
from memsearch.config.project import Project, source_of
from memsearch.pipeline.events import document_stream
from memsearch.pipeline.projects import known_projects
from memsearch.pipeline.stages.append import document_changed
from memsearch.pipeline.stages.documents import COST, identity
from memsearch.sinks import embedders
from memsearch.sinks.documents import walk

if TYPE_CHECKING:
    from memsearch.pipeline.engine import Engine
    from memsearch.pipeline.log import Transaction


def reconcile(engine: Engine) -> int:
    """Send every document through the index stages whose file is not what the index holds.

    Compared are modification time, size and the identity of the index; no file is read. A
    project whose folder is gone (a disk that is not mounted) is left as it is.

    Returns:
        How many documents were sent.
    """
    changed = 0
    for project in known_projects(engine.log):
        if os.path.isdir(project.root):
            changed += reconcile_project(engine, project)
    return changed


def reconcile_project(engine: Engine, project: Project) -> int:
    """The same for one project: its memory folder, its archive, and what was indexed by name."""
    found: set[str] = set()
    ignore = engine.settings(project.root).indexing.exclude
    for folder in (project.memory_dir, project.archive_dir):
        if os.path.isdir(folder):
            walked = walk([folder], ignore)
            found.update(walked.files)
            for error in walked.unreadable:
                engine.note("folder_unreadable", level="warning", error=error.message)
    known = {
        row["path"]
        for row in engine.log.rows(
            "SELECT path FROM documents WHERE collection = ? AND state <> 'removed'"
            " AND project = ?",
            (project.collection, project.root),
        )
    }
    return send_changed(engine, project, sorted(found | known), "reconcile")


def send_changed(
    engine: Engine,
    project: Project,
    paths: list[str],
    cause: str,
    *,
    force: bool = False,
    agreed: bool = False,
) -> int:
    """Queue the documents among ``paths`` that differ from what the index holds.

    Args:
        engine: The engine.
        project: Whose documents they are.
        paths: Absolute paths; one that is gone leaves the index.
        cause: Why, for the log.
        force: Queue all of them.
        agreed: Somebody agreed to what embedding them costs.

    Returns:
        How many were queued.
    """
    rows = {
        row["stream"]: row
        for row in engine.log.rows(
            "SELECT stream, state, stage, indexed_mtime_ns, indexed_size, identity, due,"
            " error_class, mtime_ns, size FROM documents WHERE collection = ?",
            (project.collection,),
        )
    }
    current = _identity(engine)
    changed: list[tuple[str, str]] = []
    for path in paths:
        source = source_of(project, path)
        row = rows.get(document_stream(project.collection, source))
        try:
            status = os.lstat(path)
            gone = stat.S_ISLNK(status.st_mode)
        except PermissionError:
            continue  # what cannot be looked at is not taken for gone
        except OSError:
            gone = True
        # One that waits for somebody to agree to its cost is not on its way.
        held = row is not None and row["state"] == "open" and row["error_class"] == COST
        if gone:
            if row is not None and (held or row["state"] in ("done", "dead")):
                changed.append((source, path))
            continue
        if row is not None and row["state"] == "open" and not force:
            as_read = (row["mtime_ns"], row["size"]) == (status.st_mtime_ns, status.st_size)
            if not held or as_read:
                continue  # on its way already, and read as it is then
        same = (
            row is not None
            and row["state"] == "done"
            and row["indexed_mtime_ns"] == status.st_mtime_ns
            and row["indexed_size"] == status.st_size
            and (current is None or row["identity"] == current)
        )
        dead = row is not None and row["state"] == "dead" and cause == "reconcile"
        if force or not (same or dead):
            changed.append((source, path))
    if changed:
        with engine.log.transaction() as tx:
            for source, path in changed:
                queue_document(tx, project, source, path, cause, force=force, agreed=agreed)
    return len(changed)


def _identity(engine: Engine) -> str | None:
    """What the index is to be of; None while the settings name a model that is not here.

    Then nothing is sent for the model's sake: it would all fail.
    """
    try:
        embedders.check_present(engine.settings().embedding, engine.home)
        return identity(engine)
    except MemsearchError:
        return None


def queue_document(
    tx: Transaction,
    project: Project,
    source: str,
    path: str,
    cause: str,
    *,
    force: bool = False,
    agreed: bool = False,
) -> None:
    """One document on its way through the index stages."""
    event = document_changed(project, source, path, cause, force=force)
    if agreed:
        event = replace(event, data={**event.data, "agreed": True})
    tx.append(event)
    tx.add_task("chunk", event.stream)
