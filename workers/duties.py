"""What a worker sees to now and then, besides running the stages."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.pipeline import (
    backup,
    cost,
    dead_letters,
    index_repair,
    lost_entries,
    messages,
    put_aside,
    renewal,
    retention,
    rules,
)
from memsearch.pipeline.auto_replay import OUTAGE, AutoReplay
from memsearch.pipeline.engine import Engine
from memsearch.pipeline.stages.documents import identity as current_identity
from memsearch.sinks import embedders
from memsearch.workers import reconcile
from memsearch.workers.compacting import compactions_of
from memsearch.workers.following import MemoryWatch
from memsearch.workers.tailing import Follower

#: Seconds between two looks at each duty.
REPLAY_SECONDS = 0.5
LOST_SECONDS = 5.0
CAPTURED_SECONDS = 15.0
WIPE_SECONDS = 2.0
RULES_SECONDS = 2.0
VERIFY_SECONDS = 60.0
DOUBT_SECONDS = 1.0
RENEW_SECONDS = 2.0
BACKUP_SECONDS = 60.0
RETENTION_SECONDS = 3_600.0
FOLLOW_SECONDS = 1.0
COMPACT_SECONDS = 60.0
WATCH_SECONDS = 5.0


class Duties:
    """The duties of one life of a worker; each runs when its time has come.

    Args:
        engine: The engine.
        lasts: The process is there to stay: it watches, and keeps the schedule.
    """

    def __init__(self, engine: Engine, *, lasts: bool = True) -> None:
        self._engine = engine
        self._replay = AutoReplay(engine.log)
        self._watch = MemoryWatch(engine)
        self._due: dict[Callable[[], None], float] = {}
        self._verified = 0
        #: Of the index, as the settings named it at the last look.
        self._identity = ""
        #: The providers that the settings named at the last look.
        self._named: tuple[object, object] | None = None
        self._duties: tuple[tuple[Callable[[], None], float], ...] = (
            (self._replay_owed, REPLAY_SECONDS),
            (self._append_lost, LOST_SECONDS),
            (self._replay_captured, CAPTURED_SECONDS),
            (self.verify_index, VERIFY_SECONDS),
            (self._verify_doubted, DOUBT_SECONDS),
            (self._wipe_messages, WIPE_SECONDS),
            (self._release_rules, RULES_SECONDS),
            (self._ask_another, RULES_SECONDS),
            (self._renew_index, RENEW_SECONDS),
            (self._back_up, BACKUP_SECONDS),
            (self._drop_old, RETENTION_SECONDS),
            (Follower(engine).look, FOLLOW_SECONDS),
        )
        if lasts:
            self._duties += (
                (self._watch.look, WATCH_SECONDS),
                (compactions_of(engine).look, COMPACT_SECONDS),
            )

    def stop(self) -> None:
        """End what goes on by itself."""
        self._watch.stop()

    def look(self) -> None:
        """Run what is due.

        Raises:
            MemsearchError: ``DAMAGED`` when the log is; any other failure is noted and the
                duty comes again.
        """
        for duty, seconds in self._duties:
            now = time.monotonic()
            if now < self._due.get(duty, 0.0):
                continue
            self._due[duty] = now + seconds
            try:
                duty()
            except MemsearchError as error:
                if self._engine.is_log_damage(error):
                    raise
                self._engine.note(
                    "duty_failed", level="error", duty=duty.__name__, error=error.message
                )
            except Exception as error:
                # One duty that stumbles must not keep the others from being done.
                self._engine.note(
                    "duty_bug",
                    level="error",
                    duty=duty.__name__,
                    error=type(error).__name__,
                    traceback=self._engine.where(error),
                )

    def _replay_owed(self) -> None:
        retry = self._engine.settings().retry
        if not retry.auto_replay:
            return
        replayed = self._replay.look(retry.base_seconds, time.time())
        if replayed:
            self._engine.note("replayed_by_itself", turns=replayed)

    def _replay_captured(self) -> None:
        replayed = dead_letters.replay_captured(self._engine.log)
        if replayed:
            self._engine.note("captured_after_all", hooks=replayed)

    def _wipe_messages(self) -> None:
        if self._engine.log.unwiped.is_set():
            messages.wipe(self._engine.log)

    def _append_lost(self) -> None:
        lost_entries.append_lost(self._engine, time.time())

    def verify_index(self) -> None:
        """Compare the index with the log: once for each opening, and when its folder is gone."""
        engine = self._engine
        if index_repair.remake_missing(engine) or not engine.has_index():
            return
        opening = engine.store_opening()
        if not opening or opening == self._verified:
            return
        names = {
            row["collection"]
            for row in engine.log.rows("SELECT DISTINCT collection FROM documents")
        }
        try:
            renewal.check_opened(engine, names)
        except MemsearchError as error:
            if not engine.is_index_damage(error):
                raise
            index_repair.put_aside(engine, error)
        else:
            index_repair.verify(engine)
        self._verified = engine.store_opening()

    def _verify_doubted(self) -> None:
        """Compare at once what a search could not read."""
        if self._engine.index_doubted.is_set():
            self._engine.index_doubted.clear()
            self._verified = 0
            self.verify_index()

    def _renew_index(self) -> None:
        """See at once that the settings name another model, and go on with what is under way."""
        engine = self._engine
        try:
            embedders.check_present(engine.settings().embedding, engine.home)
            identity = current_identity(engine)
        except MemsearchError as error:
            identity = f"none: {error.message}"
        if identity != self._identity:
            if self._identity:
                engine.note("identity_changed", before=self._identity, now=identity)
            if not identity.startswith("none: "):
                if self._identity:
                    reconcile.reconcile(engine)
                    renewal.replay_dead(engine)
                else:
                    renewal.replay_dead(engine, changed_at=_changed_at(engine.home))
            self._identity = identity
        if identity.startswith("none: "):
            return  # status says so; what is indexed stays as it is
        cost.look(engine)
        renewal.look(engine)

    def _release_rules(self) -> None:
        """Go on with what waited for a configuration that was mended."""
        released = rules.release(self._engine)
        if released:
            self._engine.note("configuration_mended", released=released)

    def _ask_another(self) -> None:
        """Try at once, when other providers are named, what waits for those before them."""
        settings = self._engine.settings()
        named = (settings.summarize, settings.embedding)
        if self._named is not None and self._named != named:
            released = dead_letters.try_now(self._engine.log, OUTAGE, "configuration", time.time())
            if released:
                self._engine.note("tried_now", released=released)
        self._named = named

    def _back_up(self) -> None:
        home = self._engine.home
        if not backup.is_due(home, time.time()):
            return
        try:
            backup.back_up(home, self._engine.stopping)
        except OSError as error:
            raise MemsearchError(
                f"the log could not be copied: {error}", kind=ErrorClass.DISK_FULL
            ) from error

    def _drop_old(self) -> None:
        days = self._engine.settings().retry.keep_days
        dropped = retention.drop_old_texts(self._engine.log, days, time.time())
        if dropped:
            self._engine.note("old_texts_dropped", texts=dropped)
        deleted = put_aside.delete_old(self._engine.home, days, time.time())
        if deleted:
            self._engine.note("put_aside_deleted", files=deleted)


def _changed_at(home: Home) -> float:
    """When the settings, the keys or the fetched models were last changed, in epoch seconds."""
    times = [0.0]
    for path in (home.config_toml, home.env_file, home.models):
        with contextlib.suppress(OSError):
            times.append(os.stat(path).st_mtime)
    return max(times)
