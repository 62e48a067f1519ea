"""Compaction in a worker: on request, in a thread that the asker follows, and on schedule."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.project import Project
from memsearch.config.statedb import new_id
from memsearch.pipeline import compact
from memsearch.pipeline.budget import next_midnight
from memsearch.pipeline.projects import known_projects
from memsearch.pipeline.status import epoch, failed_compactions
from memsearch.pipeline.summarizers.calls import StoppedError
from memsearch.recall.requests import flag_of, text_of

if TYPE_CHECKING:
    from memsearch.pipeline.engine import Engine

#: Seconds that one request waits for the end of a compaction; then the asker asks again.
WAIT_SECONDS = 1.0
#: Seconds from the first failure of a scheduled run to the next try; it doubles with each, up
#: to the second number.
RETRY_SECONDS = (600.0, 86_400.0)
#: Seconds before the asker of a compaction that the shutdown cut short asks again.
STOPPED_SECONDS = 0.2
#: Seconds that a compaction has to end at a shutdown.
STOP_SECONDS = 5.0


class _Job:
    """One compaction under way, or just ended."""

    def __init__(self, project: Project, until: date, cause: str) -> None:
        self.id = new_id()
        self.project = project
        self.until = until
        self.cause = cause
        self.done, self.total, self.what = 0, 0, ""
        self.result: dict[str, Any] | None = None
        self.error: MemsearchError | None = None
        self.ended = threading.Event()
        self.thread: threading.Thread | None = None

    def report(self, done: int, total: int, what: str) -> None:
        self.done, self.total, self.what = done, total, what


class Compactions:
    """The compactions of one life of a worker; one at a time for each project."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}
        #: Memory folder → the period in which a scheduled run ended well.
        self._ran: dict[str, str] = {}
        #: Memory folder → not before, in seconds since the epoch.
        self._not_before: dict[str, float] = {}

    def answer(self, project: Project, request: Mapping[str, Any]) -> dict[str, Any]:
        """Compact on request.

        Args:
            project: Whose journals.
            request: ``until`` (the youngest day, ``YYYY-MM-DD``; by default what
                ``compact.older_than_days`` comes to), ``today`` (the asker's local day),
                ``dry_run``, and ``job`` when it is the answer to ``running``.

        Returns:
            While it runs: ``running``, ``job``, ``done``, ``total``, ``what``. In the end: as
            ``compact.carry_out``; of a dry run: as ``compact.Plan.facts``. Both with
            ``until``.

        Raises:
            MemsearchError: ``BAD_REQUEST``, or why it failed.
        """
        until = self._until(request)
        if flag_of(request, "dry_run"):
            plan = compact.make_plan(self._engine, project, until)
            return plan.facts(project) | {"until": until.isoformat()}
        with self._lock:
            job = self._jobs.get(project.memory_dir)
            wanted = text_of(request, "job")
            if job is None or (job.ended.is_set() and job.id != wanted):
                job = self._start(project, until, "request")
        ended = job.ended.wait(WAIT_SECONDS)
        if ended and isinstance(job.error, StoppedError):
            # Whoever asks again meets the next worker, or none and goes on by itself.
            time.sleep(STOPPED_SECONDS)
            ended = False
        if not ended:
            return {
                "running": True,
                "job": job.id,
                "done": job.done,
                "total": job.total,
                "what": job.what,
            }
        if job.error is not None:
            raise job.error
        assert job.result is not None
        return job.result | {"until": job.until.isoformat()}

    def look(self) -> None:
        """Begin what the schedule says is due."""
        now = time.time()
        settings = self._engine.settings().compact
        if settings.schedule == "off":
            return
        with self._lock:
            if any(not job.ended.is_set() for job in self._jobs.values()):
                return  # one after the other
            for project in known_projects(self._engine.log):
                if os.path.isdir(project.memory_dir) and self._is_due(project, now):
                    until = _today(now) - timedelta(days=settings.older_than_days)
                    self._start(project, until, "schedule")
                    return

    def stop(self) -> None:
        """Wait for what runs; the engine's stop flag is set, and nothing half-done is left."""
        deadline = time.monotonic() + STOP_SECONDS
        for job in list(self._jobs.values()):
            if job.thread is not None:
                job.thread.join(max(0.0, deadline - time.monotonic()))

    def _until(self, request: Mapping[str, Any]) -> date:
        given = text_of(request, "until")
        today = text_of(request, "today")
        try:
            last = (date.fromisoformat(today) if today else _today(time.time())) - timedelta(days=1)
            days = self._engine.settings().compact.older_than_days
            until = date.fromisoformat(given) if given else last - timedelta(days=days - 1)
        except (ValueError, OverflowError) as error:
            raise MemsearchError(
                f"until and today are days, YYYY-MM-DD: {error}", kind=ErrorClass.BAD_REQUEST
            ) from error
        return min(until, last)  # never what is still being written

    def _start(self, project: Project, until: date, cause: str) -> _Job:
        job = _Job(project, until, cause)
        job.thread = threading.Thread(target=self._run, args=(job,), name="compact", daemon=True)
        self._jobs[project.memory_dir] = job
        job.thread.start()
        return job

    def _run(self, job: _Job) -> None:
        engine = self._engine
        try:
            with engine.in_use():
                plan = compact.make_plan(engine, job.project, job.until)
                job.result = compact.carry_out(
                    engine, job.project, plan, cause=job.cause, report=job.report
                )
            self._ended_well(job)
        except StoppedError as error:
            job.error = error
        except MemsearchError as error:
            job.error = error
            self._ended_badly(job, error)
        except Exception as error:
            engine.note(
                "compact_bug",
                level="error",
                error=type(error).__name__,
                traceback=engine.where(error),
            )
            job.error = MemsearchError(
                f"compact failed: {type(error).__name__}: {error}", kind=ErrorClass.BUG
            )
            self._ended_badly(job, job.error)
        finally:
            job.ended.set()

    def _ended_well(self, job: _Job) -> None:
        assert job.result is not None
        if job.cause == "schedule":
            schedule = self._engine.settings().compact.schedule
            self._ran[job.project.memory_dir] = period(schedule, _today(time.time()))
        if job.result["moved"]:
            self._engine.note(
                "compacted",
                project=job.project.root,
                journals=len(job.result["moved"]),
                entries=job.result["entries"],
                cause=job.cause,
            )

    def _ended_badly(self, job: _Job, error: MemsearchError) -> None:
        if self._engine.stop.is_set():
            return  # cut short by the shutdown: no failure
        if error.kind is ErrorClass.BUDGET:
            self._not_before[job.project.memory_dir] = next_midnight(time.time())
            self._engine.note("compact_paused", level="warning", project=job.project.root)
            return
        if error.kind is ErrorClass.RULES:
            return  # the settings are to be mended, as status says; it is due until then
        self._engine.note(
            "compact_failed",
            level="error",
            project=job.project.root,
            kind=error.kind.value,
            cause=job.cause,
        )
        try:
            compact.failed(self._engine, job.project, error, job.cause)
        except MemsearchError as fault:
            self._engine.note("compact_unrecorded", level="error", error=fault.message)

    def _is_due(self, project: Project, now: float) -> bool:
        if now < self._not_before.get(project.memory_dir, 0.0):
            return False
        schedule = self._engine.settings().compact.schedule
        current = period(schedule, _today(now))
        if self._ran.get(project.memory_dir) == current:
            return False
        state = failed_compactions(self._engine.log, project.collection)
        if state.failures:
            failed = epoch(state.failed_at)
            # Later than now: the clock was set back since.
            return failed > now or now >= failed + pause_after(state.failures)
        last = epoch(state.succeeded_at)
        return not last or period(schedule, _today(last)) != current


def pause_after(failures: int) -> float:
    """Seconds until the next try after so many failures in a row. Pure."""
    first, most = RETRY_SECONDS
    return min(first * 2.0 ** min(failures - 1, 30), most)


def period(schedule: str, day: date) -> str:
    """The day, week or month that a day lies in, by name. Pure."""
    if schedule == "daily":
        return day.isoformat()
    if schedule == "weekly":
        year, week, _ = day.isocalendar()
        return f"{year}-W{week:02d}"
    return day.isoformat()[:7]


def compactions_of(engine: Engine) -> Compactions:
    """The one of an engine."""
    found: Compactions = engine.part("compactions", lambda: Compactions(engine))
    return found


def _today(now: float) -> date:
    return datetime.fromtimestamp(now).astimezone().date()
