"""The worker: one process per home that runs the stages, recovers, and serves recall."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from memsearch.config import statedb, worker_lock
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.pipeline import backup, messages, queue, rebuild
from memsearch.pipeline.engine import Engine
from memsearch.pipeline.log import EventLog
from memsearch.pipeline.queue import QuietConsumer
from memsearch.workers import reconcile, recovery
from memsearch.workers.compacting import compactions_of
from memsearch.workers.duties import Duties
from memsearch.workers.frugal import be_frugal, give_back

if TYPE_CHECKING:
    from memsearch.workers.service import Service

#: Seconds between two looks at the spool, the budget and the stop flag.
TICK_SECONDS = 0.2
#: The same once nothing has run for the second number of seconds.
IDLE_TICK_SECONDS, IDLE_AFTER_SECONDS = 1.0, 5.0
#: Seconds between two sweeps for lost streams and changed files.
SWEEP_SECONDS = 60.0
#: The same after the log could not be written, so that a drain does not end for want of a task
#: that only a sweep finds.
SWEEP_AGAIN_SECONDS = 5.0
#: Seconds that running stages have to end at a shutdown.
SHUTDOWN_SECONDS = 5.0
#: Seconds between two tries to begin while the log is held or the disk is full; doubled up to
#: the second number.
BEGIN_SECONDS = (1.0, 60.0)
#: Seconds that a drain waits for what is due and does not move at all.
STALL_SECONDS = 60.0

Note = Callable[..., None]


def _identity(path: str) -> tuple[int, int, int] | None:
    """Which file is at a path; None for none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns)


#: This file as it was loaded: an installer that upgrades the package or removes it replaces it.
_LOADED = _identity(__file__)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a drain did, in streams."""

    captured: int = 0
    skipped: int = 0
    summarized: int = 0
    appended: int = 0
    indexed: int = 0
    failed: int = 0
    dead: int = 0
    waiting: int = 0
    #: It ended although something was due, since nothing moved any more.
    stalled: bool = False


class Worker:
    """Runs with the worker's lock held.

    Args:
        home: Whose worker.
        environ: The environment.
        lock_fd: The locked descriptor.
        note: Writes to the log file.
        serve: Offer recall on the socket.
    """

    def __init__(
        self,
        home: Home,
        environ: Mapping[str, str],
        lock_fd: int,
        note: Note,
        *,
        serve: bool = True,
    ) -> None:
        self.home = home
        self.environ = environ
        self.lock_fd = lock_fd
        self.note = note
        self.serve = serve
        self.stopping = threading.Event()
        self.reason = ""
        self._idle_since = time.monotonic()
        self._swept = 0.0
        #: The last life ended because the log was found damaged.
        self.damaged = False
        #: The last life ended because the package was upgraded or removed.
        self.replaced = False
        #: Seconds that the log may refuse to be read until the worker gives up; 0: for ever.
        self.patience = 0.0
        #: It is there to stay, and not for one request.
        self._lasts = False
        self._failing_since: float | None = None
        #: When the spool is looked at again, by ``time.monotonic``, after a failure.
        self._spool_again = 0.0

    # -- the two ways to run ----------------------------------------------------------------

    def run(self) -> None:
        """Work until told to stop, or until nothing has been due for the idle time."""
        self._handle_signals()
        be_frugal()
        self._lasts = True
        wait = BEGIN_SECONDS[0]
        while not self.stopping.is_set():
            try:
                self.work(self._until_idle)
            except MemsearchError as error:
                if error.kind not in (ErrorClass.BUSY, ErrorClass.DISK_FULL):
                    raise
                # It passes. A worker that gave up here would be missed until the next hook.
                self.note("worker_waits", level="warning", error=str(error), seconds=wait)
                self.stopping.wait(wait)
                wait = min(wait * 2, BEGIN_SECONDS[1])
                continue
            wait = BEGIN_SECONDS[0]
            if self.stopping.is_set():
                return
            if self.damaged:
                continue
            if self.replaced:
                # Half of it is loaded and half would be read from what is there now. Whoever
                # comes next starts a worker that is whole.
                return
            if not worker_lock.is_ours(self.home, self.lock_fd):
                return  # another worker lives by now, or may
            # Idle. Let the lock go, then look again: a hook that came in between saw the
            # lock held and started nobody.
            self._release()
            if self._next_due() is None or not self._take_again():
                return

    def drain(
        self,
        *,
        wait: bool,
        progress: Callable[[Engine], None] | None = None,
    ) -> Counts:
        """Work everything that is due.

        Args:
            wait: Also wait for what is to be tried again later.
            progress: Called now and then.

        Returns:
            What was done.
        """
        self._handle_signals()
        counts = Counts()

        pace = Pace(time.monotonic())
        self.patience = STALL_SECONDS

        def until(engine: Engine) -> bool:
            if progress is not None:
                progress(engine)
            if not _due(engine, wait=wait) and not recovery.spooled(self.home):
                return True
            seq = int(engine.log.value("SELECT MAX(seq) FROM events") or 0)
            idle = not engine.running() and (_due_now(engine) or recovery.spooled(self.home))
            idle = idle and not engine.pacing.pauses()  # what is put off is due all the same
            return pace.stalls(seq, time.monotonic()) if idle else pace.goes_on(time.monotonic())

        first = 0

        def started(engine: Engine) -> None:
            nonlocal first
            first = int(engine.log.value("SELECT MAX(seq) FROM events") or 0)

        def ended(engine: Engine) -> None:
            nonlocal counts
            counts = count(engine.log, first)

        self.work(until, begin=started, ended=ended)
        if self.damaged and not self.stopping.is_set():
            self.work(until, begin=started, ended=ended)
        if pace.stalled:
            self.note("drain_stalled", level="error", waiting=counts.waiting)
        return dataclasses.replace(counts, stalled=pace.stalled)

    # -- one life with the lock --------------------------------------------------------------

    def work(
        self,
        until: Callable[[Engine], bool],
        *,
        begin: Callable[[Engine], None] | None = None,
        ended: Callable[[Engine], None] | None = None,
        queues: Sequence[str] = (statedb.QUEUE, statedb.SUMMARY_QUEUE),
    ) -> None:
        """Recover, then run the stages until something is so, or until told to stop.

        Args:
            until: Asked every tick.
            begin: Called before anything is queued, with the log open.
            ended: Called after the last stage has ended, with the log open.
            queues: Which queues are worked.
        """
        self._restore_if_damaged()
        log = EventLog(self.home.state_db)
        engine = Engine(self.home, self.environ, log, self.note)
        engine.stopping = self.stopping
        consumers: list[QuietConsumer] = []
        service = None
        duties = None
        try:
            self._mend(engine)
            engine.budget.settle_killed()
            if begin is not None:
                begin(engine)
            self._take_spool(engine)
            queued = recovery.refill(log)
            worker_lock.clear_stamp(self.home)
            self.note("worker_started", pid=os.getpid(), queued=queued)
            hueys = {
                name: queue.make_huey(name, log) for name in (statedb.QUEUE, statedb.SUMMARY_QUEUE)
            }
            queue.register(hueys, engine.run)
            workers = engine.settings().workers
            threads = {
                statedb.QUEUE: workers.concurrency,
                statedb.SUMMARY_QUEUE: workers.summarize_concurrency,
            }
            consumers = [queue.make_consumer(hueys[name], threads[name]) for name in queues]
            for consumer in consumers:
                consumer.start()
            if self.serve:
                from memsearch.workers.service import Service

                service = Service(engine)
                self._start_service(service)
            self._sweep(engine)
            duties = Duties(engine, lasts=self._lasts)
            duties.look()
            self._idle_since = time.monotonic()
            busy = time.monotonic()
            while not self.stopping.is_set() and not engine.damaged.is_set():
                if self._is_over(engine, until):
                    break
                self._tick(engine, consumers, duties)
                if service is not None and not service.is_alive():
                    self._start_service(service)
                now = time.monotonic()
                busy = now if engine.running() else busy
                idle = now - busy > IDLE_AFTER_SECONDS
                self.stopping.wait(IDLE_TICK_SECONDS if idle else TICK_SECONDS)
        finally:
            self.damaged = engine.damaged.is_set()
            engine.stop.set()
            if service is not None:
                service.stop()
            self._stop_consumers(consumers)
            if duties is not None:
                duties.stop()
            compactions_of(engine).stop()
            if ended is not None:
                with contextlib.suppress(MemsearchError):  # a log that is damaged counts nothing
                    ended(engine)
            engine.close()
            for consumer in consumers:
                consumer.huey.storage.close()
            try:
                messages.wipe(log)
            except MemsearchError as error:
                self.note("checkpoint_failed", level="warning", error=str(error))
            log.close()
            self.note("worker_stopped", reason=self.reason or "idle")

    def _restore_if_damaged(self) -> None:
        """Put the last good copy of the log in the place of a damaged one."""
        if not os.path.exists(self.home.state_db):
            return
        try:
            backup.check(self.home.state_db)
        except MemsearchError as error:
            self.note("log_damaged", level="error", error=error.message)
            sound, aside = backup.restore(self.home)
            hooks = backup.salvage(self.home, aside)
            self.note("log_restored", level="warning", copy=sound, aside=aside, salvaged=hooks)

    def _mend(self, engine: Engine) -> None:
        """Bring back what somebody deleted of the log's shadows."""
        engine.log.create_missing()
        if not rebuild.is_whole(engine.log):
            folded = rebuild.rebuild(engine.log)
            self.note("projections_rebuilt", level="warning", events=folded)

    def _start_service(self, service: Service) -> None:
        """Listen. A worker that cannot be asked still captures, and says so."""
        try:
            service.start()
        except OSError as error:
            self.note("service_failed", level="error", error=str(error))

    def _is_over(self, engine: Engine, until: Callable[[Engine], bool]) -> bool:
        if not worker_lock.is_ours(self.home, self.lock_fd):
            # Somebody deleted run/: the next hook starts another worker, which is to be alone.
            self.note("lock_taken_away", level="warning")
            return True
        if self._lasts and _identity(__file__) != _LOADED:
            self.note("package_replaced", level="warning")
            self.reason, self.replaced = "package replaced", True
            return True
        try:
            over = until(engine)
        except MemsearchError as error:
            self._log_failed(engine, error)
            return False
        self._failing_since = None
        return over

    def _log_failed(self, engine: Engine, error: MemsearchError) -> None:
        """The log could not be read or written: mend what can be, wait for the rest.

        Raises:
            MemsearchError: The same, when it has been so for longer than a drain waits.
        """
        self.note("sweep_failed", level="error", error=str(error))
        if engine.is_log_damage(error):
            engine.damaged.set()
            return
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        if self.patience and now - self._failing_since > self.patience:
            raise error
        self.stopping.wait(1.0)
        self._mend_again(engine)

    def _mend_again(self, engine: Engine) -> None:
        """After a failure of the log: somebody may have deleted a table under our feet."""
        try:
            self._mend(engine)
            recovery.queue_lost(engine.log, engine.running(), time.time())
        except MemsearchError as error:
            self.note("mend_failed", level="error", error=str(error))

    def _tick(self, engine: Engine, consumers: list[QuietConsumer], duties: Duties) -> None:
        """The small duties of the main thread. A failure is noted and tried again."""
        try:
            if engine.log.trouble.is_set():
                engine.log.trouble.clear()
                self._mend_again(engine)
            duties.look()
            self._take_spool(engine)
            every = SWEEP_AGAIN_SECONDS if engine.unrecorded.is_set() else SWEEP_SECONDS
            if time.monotonic() - self._swept >= every:
                engine.unrecorded.clear()
                try:
                    self._sweep(engine)
                except MemsearchError:
                    engine.unrecorded.set()
                    raise
                for consumer in consumers:
                    consumer.check_worker_health()
            self._release_budget(engine)
            idle = engine.settings().workers.model_idle_minutes * 60
            unused = time.monotonic() - max(engine.used, engine.asked)
            if idle > 0 and unused > idle and engine.is_idle():
                from memsearch.recall import rerank as reranker

                engine.let_go()
                reranker.let_go()
                give_back()
                engine.used = time.monotonic()
        except MemsearchError as error:
            self._log_failed(engine, error)
        except Exception as error:
            # Whatever it was: a worker that dies of it would be missed by every turn to come.
            self.note(
                "tick_bug",
                level="error",
                error=type(error).__name__,
                traceback=engine.where(error),
            )
            self.stopping.wait(1.0)

    def _take_spool(self, engine: Engine) -> None:
        """Take the spooled hooks in. A file that cannot be had holds nothing else up."""
        if not recovery.spooled(self.home) or time.monotonic() < self._spool_again:
            return
        try:
            taken, bad = recovery.sweep_spool(self.home, engine.log)
        except MemsearchError as error:
            if error.kind is not ErrorClass.PERMISSION:
                raise
            self.note("spool_failed", level="error", error=str(error))
            self._spool_again = time.monotonic() + SWEEP_SECONDS
            return
        self.note("spool_swept", taken=taken, bad=bad)

    def _sweep(self, engine: Engine) -> None:
        self._mend(engine)
        self._swept = time.monotonic()
        self._release_budget(engine)
        changed = reconcile.reconcile(engine)
        lost = recovery.queue_lost(engine.log, engine.running(), time.time())
        engine.log.checkpoint()
        if changed or lost:
            self.note(
                "swept", changed=changed, lost=[f"{item.stage} {item.key}" for item in lost] or None
            )

    def _release_budget(self, engine: Engine) -> None:
        if not _paused(engine):
            return
        cap = engine.settings().budget.daily_tokens
        if cap == 0 or engine.budget.spent() < cap:
            turns = recovery.release_paused(engine.log, time.time())
            if turns:
                self.note("budget_released", turns=turns)

    # -- ending -----------------------------------------------------------------------------

    def _until_idle(self, engine: Engine) -> bool:
        minutes = engine.settings().workers.idle_exit_minutes
        # What a spent budget holds back goes on at midnight, and nobody else is awake then.
        # Nor would anybody else follow the agents' files, or keep the schedule.
        settings = engine.settings()
        follows = settings.capture.tail or settings.compact.schedule != "off"
        if follows or not engine.is_idle() or _due(engine, wait=True) or _paused(engine):
            self._idle_since = time.monotonic()
            return False
        idle = time.monotonic() - max(self._idle_since, engine.asked)
        return minutes > 0 and idle > minutes * 60

    def has_due(self) -> bool:
        """Whether something is due now; for the moment after the lock was let go."""
        due = self._next_due()
        return due is not None and due <= time.time()

    def _next_due(self) -> float | None:
        if recovery.spooled(self.home):
            return 0.0
        log = EventLog(self.home.state_db)
        try:
            return recovery.next_due(log)
        finally:
            log.close()

    def _release(self) -> None:
        os.close(self.lock_fd)

    def _take_again(self) -> bool:
        fd = worker_lock.take_lock(self.home)
        if fd is None:
            return False
        worker_lock.write_pid(fd)
        self.lock_fd = fd
        return True

    def _handle_signals(self) -> None:
        def stop(signum: int, frame: FrameType | None) -> None:
            del frame
            self.reason = signal.Signals(signum).name
            self.stopping.set()

        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, stop)

    def _stop_consumers(self, consumers: list[QuietConsumer]) -> None:
        for consumer in consumers:
            consumer.stop_flag.set()
        deadline = time.monotonic() + SHUTDOWN_SECONDS
        for consumer in consumers:
            consumer.shutdown_timeout = max(0.1, deadline - time.monotonic())
            consumer.stop(graceful=True)


#: A retry so close, in seconds, is part of the work at hand: a look at a transcript that is
#: about to be written, a call that waits for others to settle.
SOON_SECONDS = 5.0


def _due(engine: Engine, *, wait: bool) -> bool:
    """Whether there is something to do now or, with ``wait``, later."""
    if engine.running():
        return True
    due = recovery.next_due(engine.log)
    return due is not None and (wait or due <= time.time() + SOON_SECONDS)


def _due_now(engine: Engine) -> bool:
    due = recovery.next_due(engine.log)
    return due is not None and due <= time.time()


@dataclass(slots=True)
class Pace:
    """Whether anything moves: ``since`` is when it last did, by ``time.monotonic``."""

    since: float
    seq: int = -1
    stalled: bool = False

    def goes_on(self, now: float) -> bool:
        """Something runs, or is waited for on purpose. Always False: it is not over."""
        self.since, self.stalled = now, False
        return False

    def stalls(self, seq: int, now: float) -> bool:
        """Something is due and nothing runs.

        Args:
            seq: The end of the log.
            now: By ``time.monotonic``.

        Returns:
            Whether that has been so, with no new event, for ``STALL_SECONDS``.
        """
        if seq != self.seq:
            self.seq, self.since = seq, now
        self.stalled = now - self.since > STALL_SECONDS
        return self.stalled


def _paused(engine: Engine) -> int:
    """Turns that a spent budget holds back."""
    found = engine.log.value(
        "SELECT COUNT(*) FROM turns WHERE state = 'open' AND error_class = 'budget'"
    )
    return int(found or 0)


def count(log: EventLog, after: int) -> Counts:
    """What the log says was done since an event, in streams."""
    done = {
        row["type"]: row["n"]
        for row in log.rows(
            "SELECT type, COUNT(*) AS n FROM events WHERE seq > ? GROUP BY type", (after,)
        )
    }
    waiting = sum(
        int(log.value(f"SELECT COUNT(*) FROM {table} WHERE state = 'open'") or 0)
        for table in ("hooks", "turns", "documents")
    )
    return Counts(
        captured=done.get("TurnCaptured", 0),
        skipped=done.get("TurnSkipped", 0),
        summarized=done.get("TurnSummarized", 0),
        appended=done.get("TurnAppended", 0),
        indexed=done.get("DocumentIndexed", 0),
        failed=done.get("StageFailed", 0),
        dead=done.get("DeadLettered", 0),
        waiting=waiting,
    )
