"""What is done on request, by a worker or in its place: index, reset, forget, compact."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.project import Project, resolve
from memsearch.pipeline import cost, forget
from memsearch.pipeline.events import Event, EventType
from memsearch.pipeline.index_repair import mend_damaged, remake_missing
from memsearch.pipeline.projects import known_projects
from memsearch.pipeline.stages.documents import identity
from memsearch.recall.requests import flag_of, text_of, texts_of, with_forwarded
from memsearch.sinks import embedders
from memsearch.workers import waiting
from memsearch.workers.compacting import compactions_of
from memsearch.workers.reconcile import reconcile_project, send_changed
from memsearch.workers.recovery import sweep_spool
from memsearch.workers.walking import drop_excluded, walk_for

if TYPE_CHECKING:
    from memsearch.pipeline.engine import Engine

OPERATIONS = ("index", "reset", "forget", "renew", "compact")


def handle(operation: str, request: Mapping[str, Any], engine: Engine) -> dict[str, Any]:
    """Answer one of ``OPERATIONS``.

    Args:
        operation: One of ``OPERATIONS``.
        request: ``cwd`` and ``environ`` as in recall's requests; ``index``: ``paths`` (absolute;
            none for the project's memory folder), ``force``, ``agreed``: what embedding
            costs is agreed to, as with ``force``, and ``gone``: a path that is not there and
            was never indexed is no mistake.
        engine: The engine of the process that holds the worker's lock.

    Returns:
        ``index``: ``seen``, ``queued``, the ``collection`` whose documents to wait for, and
        where there are none, the ``outcome`` (``workers.waiting.outcome``).
        ``reset``: the ``collection`` and how many ``documents`` left it.
        ``forget``: the plan's facts. ``renew`` (after a ``forget`` in another home): in
        ``queued``, how many collections were made anew.
        ``compact``: as ``compacting.Compactions.answer``.
    """
    project = _project(engine, request)
    if operation == "compact":
        return _compact(engine, project, request)
    if operation == "forget":
        return _forget(engine, project, request)
    if operation == "renew":
        found = forget.renew_changed(engine)
        collection = found[-1] if found else project.collection
        return {"collection": collection, "queued": len(found), "unreadable": []}
    if operation == "index":
        return _index(engine, project, request)
    return _reset(engine, project)


def know(request: Mapping[str, Any], engine: Engine) -> int:
    """Have the memory of a project indexed that nobody has told of, now that it is asked about.

    Args:
        request: Of a search, with ``cwd`` and ``environ``.
        engine: The worker's engine.

    Returns:
        How many documents were queued; 0 for a project that is known.
    """
    project = _project(engine, request)
    if not os.path.isdir(project.memory_dir) or engine.log.value(
        "SELECT 1 FROM projects WHERE memory_dir = ?", (project.memory_dir,)
    ):
        return 0
    return reconcile_project(engine, project)


def _project(engine: Engine, request: Mapping[str, Any]) -> Project:
    cwd = text_of(request, "cwd")
    if not os.path.isabs(cwd):
        raise MemsearchError(f"cwd must be absolute, not {cwd!r}", kind=ErrorClass.BAD_REQUEST)
    environ = with_forwarded(engine.environ, request)
    environ["MEMSEARCH_HOME"] = engine.home.root
    settings = engine.settings()
    return resolve(
        cwd,
        environ,
        isolate_worktrees=settings.project.isolate_worktrees,
        collections=settings.collections(),
    )


def _index(engine: Engine, project: Project, request: Mapping[str, Any]) -> dict[str, Any]:
    paths = [os.path.abspath(path) for path in texts_of(request, "paths")]
    force = flag_of(request, "force")
    agreed = force or flag_of(request, "agreed")
    indexing = engine.settings(project.root).indexing
    if not paths:
        folders = (project.memory_dir, project.archive_dir)
        paths = [folder for folder in folders if os.path.isdir(folder)]
    named = [path for path in paths if os.path.isdir(path)]
    gone_by_name = {path for path in paths if _is_gone(path)}
    found = walk_for(project, [path for path in paths if path not in gone_by_name], indexing)
    seen = [os.path.realpath(path) if os.path.islink(path) else path for path in found.files]
    # Only what was named, or lies in a folder that was, is looked for among what is gone.
    gone = [
        row["path"]
        for row in engine.log.rows(
            "SELECT path FROM documents WHERE collection = ? AND state <> 'removed'",
            (project.collection,),
        )
        if not os.path.exists(row["path"])
        and (
            any(_is_or_inside(row["path"], each) for each in gone_by_name)
            or (found.covers(row["path"]) and any(_inside(row["path"], each) for each in named))
        )
    ]
    unknown = [path for path in gone_by_name if not any(_is_or_inside(each, path) for each in gone)]
    if unknown and not flag_of(request, "gone"):
        raise MemsearchError(
            f"{min(unknown)} does not exist",
            kind=ErrorClass.BAD_REQUEST,
            hint="name a Markdown file or a folder",
        )
    embedders.check_present(engine.settings().embedding, engine.home)
    if force and not cost.estimates(engine.log):  # else what waits tells it
        _learn_dimension(engine)
    mended = remake_missing(engine) or mend_damaged(engine, thorough=force)
    # A collection is of one model: what else was indexed in it goes along.
    current = identity(engine)
    others = [
        row["path"]
        for row in engine.log.rows(
            "SELECT path FROM documents WHERE collection = ? AND state = 'done'"
            " AND identity IS NOT NULL AND identity <> ? AND project = ?",
            (project.collection, current, project.root),
        )
        if row["path"] not in seen and row["path"] not in gone
    ]
    queued = send_changed(engine, project, seen + gone, "index", force=force, agreed=agreed)
    if others:
        queued += send_changed(engine, project, others, "index", agreed=agreed)
    if agreed:
        queued = max(queued, cost.release(engine, project.collection, agreed=True))
    answer = {
        "collection": project.collection,
        "seen": len(seen),
        "queued": max(queued, mended),
        "excluded": drop_excluded(engine, project, found),
        "unreadable": [str(error) for error in found.unreadable],
    }
    busy = waiting.left(engine.log, project.collection)
    return answer | {"outcome": None if busy else waiting.outcome(engine.log, answer)}


def _compact(engine: Engine, project: Project, request: Mapping[str, Any]) -> dict[str, Any]:
    answer = compactions_of(engine).answer(project, request)
    moved = len(answer.get("moved", ()))
    return answer | {"collection": project.collection, "queued": 2 * moved, "unreadable": []}


def _learn_dimension(engine: Engine) -> None:
    """Ask an endpoint how long its vectors are, if nobody knows.

    It may have changed them under the same name; what the cache has of another length is then
    embedded again.
    """
    embedder = engine.embedder()
    if embedder.dimension is not None:
        return
    try:
        embedder.embed_query("?")
    except MemsearchError as error:
        engine.note("dimension_unknown", level="warning", error=error.message)


def _forget(engine: Engine, project: Project, request: Mapping[str, Any]) -> dict[str, Any]:
    day = text_of(request, "day")
    chosen = forget.Chosen(
        turn=text_of(request, "turn"),
        session=text_of(request, "session"),
        day=date.fromisoformat(day) if day else None,
        text=text_of(request, "text"),
    )
    if [bool(v) for v in (chosen.turn, chosen.session, chosen.day, chosen.text)].count(True) != 1:
        raise MemsearchError(
            "one of turn, session, day and text says what to forget", kind=ErrorClass.BAD_REQUEST
        )
    projects = [project]
    if flag_of(request, "all_projects"):
        known = known_projects(engine.log)
        projects += [each for each in known if each.memory_dir != project.memory_dir]
    # What waits in the spool is in the log by then, where it is found like all the rest.
    sweep_spool(engine.home, engine.log)
    if flag_of(request, "dry_run"):
        plan = forget.make_plan(engine, projects, chosen)
    else:
        plan = forget.carry_out(engine, projects, chosen)
        engine.note("forgotten", level="info", turns=len(plan.turns), entries=len(plan.entries))
    return plan.facts() | {
        "collection": project.collection,
        "queued": len({entry.path for entry in plan.entries}),
        "unreadable": [],
    }


def _inside(path: str, folder: str) -> bool:
    return path.startswith((os.path.join(os.path.realpath(folder), ""), os.path.join(folder, "")))


def _is_or_inside(path: str, other: str) -> bool:
    return path in (other, os.path.realpath(other)) or _inside(path, other)


def _is_gone(path: str) -> bool:
    """Whether there is nothing of this name; what may not be looked at is not gone."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _reset(engine: Engine, project: Project) -> dict[str, Any]:
    rows = engine.log.rows(
        "SELECT * FROM documents WHERE collection = ? AND state <> 'removed'",
        (project.collection,),
    )
    engine.store().drop(project.collection)
    with engine.log.transaction() as tx:
        tx.execute("DELETE FROM renewals WHERE collection = ?", (project.collection,))
        for row in rows:
            tx.append(
                Event(
                    row["stream"],
                    EventType.DOCUMENT_REMOVED,
                    {"change": row["change"], "reason": "reset"},
                )
            )
    return {"collection": project.collection, "documents": len(rows)}
