"""``index``, ``reset``, ``forget``, ``compact``: by the living worker, or here with its lock.

One way for the command line and the Python API. Milvus Lite has one owner at a time, so a
process that finds no worker becomes one for as long as its request takes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from memsearch.config import worker_lock
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.recall import client

if TYPE_CHECKING:
    from memsearch.config.paths import Home
    from memsearch.pipeline.engine import Engine

#: Seconds that the worker of another process is waited for without any progress.
STALLED_SECONDS = 120.0
#: Seconds between two looks at a worker that begins or ends, and at documents on their way.
BEGIN_SECONDS, LOOK_SECONDS = 0.1, 0.05

#: Told how many documents are left and how many were queued.
Progress = Callable[[int, int], None]
#: Told how many steps are done, of how many, and what is at hand.
Steps = Callable[[int, int, str], None]
#: Writes an event and its facts into the log.
Note = Callable[..., None]


def ask(
    home: Home,
    environ: Mapping[str, str],
    operation: str,
    request: Mapping[str, Any],
    *,
    wait: bool,
    progress: Progress | None = None,
    steps: Steps | None = None,
    log: Callable[[Home], Note] | None = None,
) -> dict[str, Any]:
    """Have something done to the index.

    Args:
        home: Whose; its folders exist.
        environ: The process's environment.
        operation: One of ``workers.admin.OPERATIONS``.
        request: As ``workers.admin.handle`` takes it.
        wait: Until the project's documents are indexed, or wait for somebody to agree to
            what that costs.
        progress: Called now and then while it waits.
        steps: Called now and then during long work before that: steps done, all steps, the
            one at hand.
        log: Opens the log that a worker in this process writes; by default lines are added to
            its file, and ``logging``, which belongs to the program, is left alone.

    Returns:
        As ``workers.admin.handle``; with ``wait`` also ``chunks`` (those in the index),
        ``failed`` (what could not be indexed, in words) and ``waiting`` (None, or the estimate
        of what waits for somebody to agree to its cost, as ``pipeline.cost.Estimate``).

    Raises:
        MemsearchError: The worker's own error; ``TIMEOUT`` when nothing moves.
    """
    while True:
        try:
            answer = client.ask(home.socket, operation, request)
            if answer.get("running"):
                # Long work goes on in the worker; each answer says how far it is.
                request = {**request, "job": answer["job"]}
                _show(answer, steps)
                continue
        except client.Unreachable:
            try:
                lock = worker_lock.take_lock(home)
            except OSError as error:
                raise MemsearchError(
                    f"{home.worker_lock}: {error.strerror}",
                    kind=ErrorClass.PERMISSION,
                    hint="check its owner and permissions, or set MEMSEARCH_HOME to another folder",
                ) from error
            if lock is None:
                time.sleep(BEGIN_SECONDS)
                continue
            try:
                worker_lock.write_pid(lock)
                note = (log or _lines)(home)
                return _here(home, environ, lock, note, operation, request, wait, progress, steps)
            finally:
                os.close(lock)
        outcome = answer.pop("outcome", None)
        if not wait:
            return answer
        # With nothing to wait for the worker has said all, and this process needs no log.
        return answer | outcome if outcome else _wait_for(home, answer, progress)


def _here(
    home: Home,
    environ: Mapping[str, str],
    lock: int,
    note: Note,
    operation: str,
    request: Mapping[str, Any],
    wait: bool,
    progress: Progress | None,
    steps: Steps | None,
) -> dict[str, Any]:
    from memsearch.config import statedb
    from memsearch.workers import admin, waiting
    from memsearch.workers.runner import Worker

    answer: dict[str, Any] = {}

    def begin(engine: Engine) -> None:
        asked = dict(request)
        while (found := admin.handle(operation, asked, engine)).get("running"):
            asked["job"] = found["job"]
            _show(found, steps)
        answer.update(found)
        answer.pop("outcome", None)  # it is told at the end

    def until(engine: Engine) -> bool:
        if not wait:
            return True
        left = waiting.left(engine.log, answer["collection"])
        if progress is not None:
            progress(left, answer["queued"])
        return not left

    def ended(engine: Engine) -> None:
        if wait and answer:
            answer.update(waiting.outcome(engine.log, answer))

    worker = Worker(home, dict(environ), lock, note)
    # No summaries: bringing the index up to date spends nothing on a model.
    # Nor is anything worked for who does not wait for it: the next worker does.
    queues = (statedb.QUEUE,) if wait else ()
    worker.work(until, begin=begin, ended=ended, queues=queues)
    if wait and "failed" not in answer:
        raise MemsearchError(
            "the event log could not be read to its end",
            kind=ErrorClass.DAMAGED,
            hint="memsearch status says what to do about it",
        )
    return answer


def _show(answer: Mapping[str, Any], steps: Steps | None) -> None:
    if steps is not None:
        steps(answer["done"], answer["total"], answer["what"])


def _lines(home: Home) -> Note:
    """Adds to ``logs/worker.log`` what is worth a line, each in one write."""
    from memsearch.config.statedb import utc_now

    path = os.path.join(home.logs, "worker.log")

    def note(event: str, level: str = "info", **facts: object) -> None:
        if level == "debug":
            return
        told = {name: value for name, value in facts.items() if value is not None}
        line = {**told, "event": event, "level": level, "timestamp": utc_now()}
        data = json.dumps(line, ensure_ascii=False, default=str).encode("utf-8", "replace")
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, data + b"\n")
        finally:
            os.close(fd)

    return note


def _wait_for(home: Home, answer: dict[str, Any], progress: Progress | None) -> dict[str, Any]:
    from memsearch.pipeline.log import EventLog
    from memsearch.workers import waiting

    log = EventLog(home.state_db)
    try:
        last = -1
        moved = time.monotonic()
        while left := waiting.left(log, answer["collection"]):
            if progress is not None:
                progress(left, answer["queued"])
            if left != last:
                last, moved = left, time.monotonic()
            elif time.monotonic() - moved > STALLED_SECONDS:
                raise MemsearchError(
                    f"{left} documents are not indexed after {STALLED_SECONDS:g} s",
                    kind=ErrorClass.TIMEOUT,
                    hint="memsearch status says why; the worker goes on",
                )
            time.sleep(LOOK_SECONDS)
        return answer | waiting.outcome(log, answer)
    finally:
        log.close()
