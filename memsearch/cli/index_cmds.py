"""``index``, ``stats`` and ``reset``: the shadow of the Markdown, made, counted, dropped."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from memsearch.cli import output
from memsearch.cli.home import current_home, open_log, take_worker_lock
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.project import working_folder

if TYPE_CHECKING:
    from memsearch.config.paths import Home
    from memsearch.pipeline.engine import Engine
    from memsearch.pipeline.log import EventLog

#: Seconds between two lines of progress on stderr.
PROGRESS_SECONDS = 1.0
#: Seconds that the worker of another process is waited for without any progress.
STALLED_SECONDS = 120.0


def _project_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--project", metavar="DIR", help="A folder of the project, instead of the current one."
    )(command)


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--force", is_flag=True, help="Also what did not change.")
@_project_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def index(paths: tuple[str, ...], force: bool, project: str | None, as_json: bool) -> None:
    """Bring the index up to date with Markdown files.

    Without PATH: the memory of the project. A folder's vanished files leave the index; a
    file that is named changes nothing else. What did not change costs nothing. Workers do
    this by themselves for the memory of known projects.

    \b
    Examples:
      memsearch index
      memsearch index ./docs/
      memsearch index --force
    """
    with output.reported():
        home = current_home(create=True)
        request = _request(project) | {
            "paths": [os.path.abspath(path) for path in paths],
            "force": force,
        }
        answer = _run(home, "index", request, wait=True)
    if as_json:
        output.put_json(answer)
    else:
        output.put(
            f"{answer['seen']} files seen, {answer['queued']} changed,"
            f" {answer['chunks']} chunks in the index"
        )
    for failure in answer["failed"]:
        output.note(f"not indexed: {failure}")
    if answer["failed"]:
        raise SystemExit(output.DEGRADED)


@click.command()
@_project_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reset(project: str | None, yes: bool, as_json: bool) -> None:
    """Drop the index of a project. Its Markdown stays, and memsearch index makes it anew."""
    with output.reported():
        home = current_home(create=True)
        request = _request(project)
        if not yes and not click.confirm(f"Drop the index of {request['cwd']}?"):
            output.note("nothing was dropped")
            return
        answer = _run(home, "reset", request, wait=False)
    if as_json:
        output.put_json(answer)
    else:
        output.put(f"dropped {answer['collection']} ({answer['documents']} documents)")


@click.command()
@_project_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def stats(project: str | None, as_json: bool) -> None:
    """Count a project's documents and chunks, as the log has them."""
    with output.reported():
        from memsearch.config.settings import load

        home = current_home()
        settings = load(home, None, environ=os.environ, strict=True).settings
        found = _resolve(_folder(project), settings)
        log = open_log(home)
        counts: dict[str, Any] = {"documents": 0, "chunks": 0, "not_indexed": 0}
        if log is not None:
            try:
                row = log.row(
                    "SELECT COUNT(*) AS documents, COALESCE(SUM(chunks), 0) AS chunks,"
                    " COALESCE(SUM(state <> 'done'), 0) AS not_indexed FROM documents"
                    " WHERE collection = ? AND state <> 'removed'",
                    (found.collection,),
                )
                counts = dict(row) if row is not None else counts
            finally:
                log.close()
    facts = {"project": found.root, "collection": found.collection, **counts}
    if as_json:
        output.put_json(facts)
        return
    for name, value in facts.items():
        output.put(f"{name.replace('_', ' ')}: {value}")


def _folder(project: str | None) -> str:
    folder = os.path.abspath(project) if project else working_folder(os.environ)
    if project and not os.path.isdir(folder):
        raise MemsearchError(f"{folder} is no folder", kind=ErrorClass.BAD_REQUEST)
    return folder


def _resolve(folder: str, settings: Any) -> Any:
    from memsearch.config.project import resolve

    return resolve(
        folder,
        os.environ,
        isolate_worktrees=settings.project.isolate_worktrees,
        collections=settings.collections(),
    )


def _request(project: str | None) -> dict[str, Any]:
    from memsearch.recall.requests import forwarded

    return {"cwd": _folder(project), "environ": forwarded(os.environ)}


def _run(home: Home, operation: str, request: dict[str, Any], *, wait: bool) -> dict[str, Any]:
    """Ask the living worker, or do its part in this process with its lock held."""
    from memsearch.recall import client

    while True:
        try:
            answer = client.ask(home.socket, operation, request)
        except client.Unreachable:
            lock = take_worker_lock(home)
            if lock is None:
                time.sleep(0.1)  # a worker that begins, or ends
                continue
            try:
                return _run_here(home, lock, operation, request, wait=wait)
            finally:
                os.close(lock)
        return _wait_for(home, answer) if wait else answer


def _run_here(
    home: Home, lock: int, operation: str, request: dict[str, Any], *, wait: bool
) -> dict[str, Any]:
    from memsearch.config import statedb
    from memsearch.workers import admin
    from memsearch.workers.logs import open_log as open_worker_log
    from memsearch.workers.runner import Worker

    answer: dict[str, Any] = {}
    show = _Progress()

    def begin(engine: Engine) -> None:
        answer.update(admin.handle(operation, request, engine))

    def until(engine: Engine) -> bool:
        if not wait:
            return True
        show(_open(engine.log, answer["collection"]), answer["queued"])
        return not _open(engine.log, answer["collection"])

    def ended(engine: Engine) -> None:
        if wait:
            answer.update(_outcome(engine.log, answer))

    worker = Worker(home, dict(os.environ), lock, open_worker_log(home, echo=False))
    # No summaries: bringing the index up to date spends nothing on a model.
    worker.work(until, begin=begin, ended=ended, queues=(statedb.QUEUE,))
    return answer


def _wait_for(home: Home, answer: dict[str, Any]) -> dict[str, Any]:
    log = open_log(home)
    assert log is not None
    show = _Progress()
    try:
        left = last = -1
        moved = time.monotonic()
        while left := _open(log, answer["collection"]):
            show(left, answer["queued"])
            if left != last:
                last, moved = left, time.monotonic()
            elif time.monotonic() - moved > STALLED_SECONDS:
                raise MemsearchError(
                    f"{left} documents are not indexed after {STALLED_SECONDS:g} s",
                    kind=ErrorClass.TIMEOUT,
                    hint="memsearch status says why; the worker goes on",
                )
            time.sleep(0.05)
        return answer | _outcome(log, answer)
    finally:
        log.close()


def _open(log: EventLog, collection: str) -> int:
    """Documents that are on their way now; one that waits for a later try is not."""
    return int(
        log.value(
            "SELECT COUNT(*) FROM documents WHERE collection = ? AND state = 'open'"
            " AND (due IS NULL OR due <= ?)",
            (collection, time.time() + 1.0),
        )
    )


def _outcome(log: EventLog, answer: dict[str, Any]) -> dict[str, Any]:
    collection = answer["collection"]
    failed = answer["unreadable"] + [
        f"{row['source']}: {row['error']}"
        + ("" if row["state"] == "dead" else " (it is tried again)")
        for row in log.rows(
            "SELECT source, error, state FROM documents WHERE collection = ?"
            " AND (state = 'dead' OR (state = 'open' AND error IS NOT NULL))",
            (collection,),
        )
    ]
    chunks = log.value(
        "SELECT COALESCE(SUM(chunks), 0) FROM documents WHERE collection = ? AND state = 'done'",
        (collection,),
    )
    return {"chunks": int(chunks), "failed": failed}


class _Progress:
    """A line on stderr now and then, for work that takes longer than a moment."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, left: int, queued: int) -> None:
        if time.monotonic() - self._last >= PROGRESS_SECONDS and sys.stderr.isatty():
            self._last = time.monotonic()
            output.note(f"{max(0, queued - left)} of {queued} documents indexed")
