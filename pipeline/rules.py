"""The user's rules on what is kept and sent: while they cannot be read, nothing is.

A configuration that is broken is replaced by defaults, which is right for the number of search
results. It is wrong for ``capture.exclude`` and ``redact.patterns``, whose defaults are empty,
and for ``summarize.provider``, whose default may send a text to where the user never wanted
it. So the stages that obey such rules wait: the turn stays in the log, ``status`` says why, and
it goes on as soon as the file is mended.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from memsearch.config import keys
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.settings import Problem
from memsearch.pipeline import messages
from memsearch.pipeline.events import Event, EventType

if TYPE_CHECKING:
    from memsearch.pipeline.engine import Engine

#: Stage, or what else obeys rules → the sections of the settings that it must know to run.
SECTIONS = {
    "transcript": ("redact",),
    "capture": ("capture", "redact"),
    "summarize": ("redact", "summarize", "budget"),
}
#: Streams that are let go in one transaction.
BATCH = 200


def doubt(problems: Iterable[Problem], stage: str) -> Problem | None:
    """The problem for which a stage must wait; None when it knows its rules. Pure.

    That is a file that cannot be read at all, and a mistake in one of its sections, a name
    that was most likely meant to be in one too.

    Args:
        problems: Of the settings, in the order of the layers.
        stage: The stage.
    """
    for problem in problems:
        if problem.severity != "error":
            continue
        if not problem.key:
            return problem
        path = tuple(problem.key.split("."))
        meant = keys.nearest(path).partition(".")[0]
        if path[0] in SECTIONS[stage] or meant in SECTIONS[stage]:
            return problem
    return None


def check(engine: Engine, stage: str, project_root: str | None = None) -> None:
    """See that a stage knows the user's rules.

    Raises:
        MemsearchError: ``RULES``; the stage is tried again once the configuration is mended.
    """
    problem = doubt(engine.problems(project_root), stage)
    if problem is not None:
        raise MemsearchError(
            f"it waits, since your settings on it cannot be read: {problem}",
            kind=ErrorClass.RULES,
            hint="" if problem.hint else "mend it; nothing is lost",
        )


def check_capture(engine: Engine, hook: str) -> None:
    """The same before a hook is looked at, whose message does not wait as it came.

    The built-in rules take the secrets out of it now, the user's own when they can be read.

    Args:
        engine: The engine.
        hook: The id of the hook's event.

    Raises:
        MemsearchError: As ``check``.
    """
    try:
        check(engine, "capture")
    except MemsearchError:
        messages.take(engine.log, hook, None)
        raise


def release(engine: Engine) -> int:
    """Let go of what waits for the configuration, when a file of it has changed.

    Returns:
        How many streams.
    """
    if not engine.doubted_changed():
        return 0
    released = 0
    for table in ("hooks", "turns"):
        while True:
            with engine.log.transaction() as tx:
                rows = tx.rows(
                    f"SELECT stream, stage FROM {table} WHERE state = 'open'"
                    " AND error_class = ? AND due > ? LIMIT ?",
                    (ErrorClass.RULES.value, time.time(), BATCH),
                )
                for row in rows:
                    data = {"stage": row["stage"], "by": "configuration"}
                    tx.append(Event(row["stream"], EventType.REPLAYED, data))
                    tx.add_task(row["stage"], row["stream"])
            released += len(rows)
            if len(rows) < BATCH:
                break
    return released
