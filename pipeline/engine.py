"""The engine: what a task's name and key become, with the parts that the stages share.

One engine lives in the process that holds the worker's lock. It keeps what is costly to open
(the store, the model, the embedding cache) from one task to the next, sees to it that no two
threads work on the same key, and turns every failure into an event.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from memsearch.config import settings as config
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.config.project import PROJECT_FILE
from memsearch.pipeline.budget import Budget, settle
from memsearch.pipeline.events import Event, EventType
from memsearch.pipeline.log import EventLog, Transaction, is_missing_table
from memsearch.pipeline.pacing import Pacing
from memsearch.pipeline.projections import table_of
from memsearch.pipeline.redact import excerpt
from memsearch.pipeline.retry import decide

if TYPE_CHECKING:
    import sqlite3

    from memsearch.config.settings import Loaded, Problem, Settings
    from memsearch.sinks.cache import EmbeddingCache
    from memsearch.sinks.types import Embedder, Store

#: Characters that are kept of the words of a failure.
MAX_ERROR_CHARS = 4_000
#: Seconds between two looks at the configuration files.
CONFIG_SECONDS = 1.0
#: Failures of a stream up to which one that is no try is not counted: what is refused while
#: everything else passes has a fault of its own and must end some day.
MAX_FREE_REFUSALS = 200

Logger = Callable[..., None]


def _silent(event: str, **_: object) -> None:
    del event


class Engine:
    """Runs stages.

    Args:
        home: Whose log.
        environ: The process's environment.
        log: The open event log.
        note: Called with an event's name and its facts, for the log file; never with text
            of a conversation.
    """

    def __init__(
        self, home: Home, environ: Mapping[str, str], log: EventLog, note: Logger = _silent
    ) -> None:
        self.home = home
        self.environ = environ
        self.log = log
        self.note = note
        #: Set when the process ends: nothing new is begun.
        self.stop = threading.Event()
        #: Set as soon as the process was told to end; ``stop`` follows.
        self.stopping = threading.Event()
        #: Set when the log was found damaged: its worker restores it and begins anew.
        self.damaged = threading.Event()
        #: Set when the log could not be written: tasks may have got lost, and a sweep finds them.
        self.unrecorded = threading.Event()
        #: Set when a search found that the index has a fault: it is looked at soon.
        self.index_doubted = threading.Event()
        self.budget = Budget(log)
        self.pacing = Pacing()
        self._guard = threading.Lock()
        self._users = 0
        self._running: set[tuple[str, str]] = set()
        self._again: set[tuple[str, str]] = set()
        self._settings: dict[str, tuple[float, tuple[object, ...], Loaded]] = {}
        #: Files whose mistakes something waits for, as they were; None: not looked at yet.
        self._doubted: dict[str, object] | None = None
        self._parts_lock = threading.RLock()
        self._embedder: Embedder | None = None
        self._embedder_key: object = None
        self._store: Store | None = None
        #: How often the store was taken into use anew; its sign while it is, else 0.
        self._openings = 0
        self._store_opening = 0
        self._store_folder: tuple[int, int] | None = None
        self._cache: EmbeddingCache | None = None
        self._summarizers: dict[object, Any] = {}
        #: When a stage last used the model or the store, by ``time.monotonic``.
        self.used = time.monotonic()
        #: When somebody last asked the service, by ``time.monotonic``.
        self.asked = 0.0

    # -- running ---------------------------------------------------------------------------

    def run(self, stage: str, key: str) -> None:
        """Run a stage for a key. A second call for the same work waits for nobody: what runs
        looks once more when it is done."""
        from memsearch.pipeline.stages import table

        work = (stage, key)
        with self._guard:
            if self.stop.is_set():
                return  # the row is gone, the projection is not: the next start finds it
            if work in self._running:
                self._again.add(work)
                return
            self._running.add(work)
        started = time.monotonic()
        try:
            table.STAGES[stage](self, key)
        except MemsearchError as error:
            # The log itself could not be read or written: nothing can be noted in it.
            self.note("stage_unrecorded", level="error", stage=stage, key=key, error=error.message)
            self.unrecorded.set()
            if self.is_log_damage(error):
                self.damaged.set()
            self._mend_after(error)
        except Exception as error:
            # Outside of what a stage turns into a failure of its stream. Huey would log it in
            # its own words, which may quote the conversation.
            self.note(
                "stage_bug",
                level="error",
                stage=stage,
                stream=key,
                error=type(error).__name__,
                traceback=self.where(error),
            )
        finally:
            with self._guard:
                self._running.discard(work)
                again = work in self._again
                self._again.discard(work)
        if again and not self.stop.is_set():
            try:
                with self.log.transaction() as tx:
                    tx.add_task(stage, key)
            except MemsearchError as error:  # the sweep finds it
                self.note("task_lost", level="warning", stage=stage, key=key, error=error.message)
                self.unrecorded.set()
        self.note(
            "stage_ran", level="debug", stage=stage, key=key, seconds=time.monotonic() - started
        )

    def _mend_after(self, error: MemsearchError) -> None:
        """Put a table back that somebody deleted while we run."""
        if not is_missing_table(error.message):
            return
        from memsearch.pipeline.rebuild import is_whole, rebuild

        with self._parts_lock:
            try:
                self.log.create_missing()
                if not is_whole(self.log):
                    self.note("projections_rebuilt", level="warning", events=rebuild(self.log))
            except MemsearchError as fault:
                self.note("mend_failed", level="error", error=fault.message)

    def is_log_damage(self, error: MemsearchError) -> bool:
        """Whether an error says that the log's own file is damaged."""
        return error.kind is ErrorClass.DAMAGED and error.message.startswith(self.log.path)

    def is_index_damage(self, error: MemsearchError) -> bool:
        """Whether an error says that the index is damaged, and not the log or the cache."""
        others = (self.log.path, self.home.embeddings_db)
        return error.kind is ErrorClass.DAMAGED and not any(
            each in error.message for each in others
        )

    def running(self) -> list[tuple[str, str]]:
        """The work that threads are at now."""
        with self._guard:
            return sorted(self._running)

    def row(self, stage: str, stream: str) -> sqlite3.Row | None:
        """The state of a stream if this stage is what it waits for now, else None."""
        row = self.log.row(f"SELECT * FROM {table_of(stream)} WHERE stream = ?", (stream,))
        if row is None or row["state"] != "open" or row["stage"] != stage:
            return None
        if row["error_class"] != "budget" and row["due"] and row["due"] > time.time():
            return None
        return row

    @contextlib.contextmanager
    def commit(self, row: sqlite3.Row) -> Iterator[Transaction | None]:
        """A transaction if the stream is still as ``row`` says; else None: write nothing."""
        with self.log.transaction() as tx:
            current = tx.row(
                f"SELECT seq FROM {table_of(row['stream'])} WHERE stream = ?", (row["stream"],)
            )
            yield tx if current is not None and current["seq"] == row["seq"] else None

    @contextlib.contextmanager
    def failing(self, stage: str, row: sqlite3.Row, key: str | None = None) -> Iterator[None]:
        """What is raised in the block becomes an event: tried again, or a dead letter.

        Args:
            stage: The stage that is at work.
            row: The stream's state as the stage read it.
            key: The key of the stage's task; the stream by default.
        """
        try:
            yield
        except MemsearchError as error:
            self.failed(stage, row, key or row["stream"], error)
        except Exception as error:
            failure = self.as_failure(stage, row["stream"], error)
            self.failed(stage, row, key or row["stream"], failure)

    def as_failure(self, stage: str, what: str, error: Exception) -> MemsearchError:
        """An error as one of ours; what nobody foresaw is noted, without its words."""
        if isinstance(error, MemsearchError):
            return error
        self.note(
            "stage_bug",
            level="error",
            stage=stage,
            stream=what,
            error=type(error).__name__,
            traceback=self.where(error),
        )
        return MemsearchError(f"{type(error).__name__}: {error}", kind=ErrorClass.BUG)

    def failed(self, stage: str, row: sqlite3.Row, key: str, error: MemsearchError) -> None:
        """Write down a failure and what follows from it."""
        self._mend_after(error)
        if self.stop.is_set():
            # Cut short by the shutdown, or by what the shutdown closed: no fault of its own.
            # The next start takes it up, and counts what a call had set aside.
            return
        if self.is_log_damage(error):
            # No fault of the stream's, and not to be written into a log that is to be replaced.
            self.note("log_damaged", level="error", stage=stage, error=error.message)
            self.damaged.set()
            return
        retry = self.settings().retry
        attempt = int(row["attempts"]) + 1
        free = False
        if not error.is_try and self._refusals(row) < MAX_FREE_REFUSALS:
            attempt = max(1, attempt - 1)
            free = True
        decision = decide(
            error.kind,
            stage=stage,
            attempt=attempt,
            now=time.time(),
            # Where there is one try only, what was no try has not used it up.
            attempts=max(retry.attempts, attempt + 1) if free else retry.attempts,
            base_seconds=retry.base_seconds,
            retry_after=error.retry_after,
        )
        with self.commit(row) as tx:
            if tx is None:
                return
            record_failure(tx, row, stage, key, error, attempt, decision.due, self._usage(row))
        self.note(
            "stage_gave_up" if decision.gives_up else "stage_failed",
            level="error" if decision.gives_up else "warning",
            stage=stage,
            stream=row["stream"],
            kind=error.kind.value,
            attempt=attempt,
            due=decision.due,
        )

    def _refusals(self, row: sqlite3.Row) -> int:
        return int(
            self.log.value(
                "SELECT COUNT(*) FROM events WHERE stream = ? AND type = ?",
                (row["stream"], EventType.STAGE_FAILED.value),
            )
            or 0
        )

    @staticmethod
    def where(error: BaseException) -> str:
        """Where it happened, without the values: a message may quote the conversation."""
        import traceback

        return " < ".join(
            f"{os.path.basename(frame.filename)}:{frame.lineno}:{frame.name}"
            for frame in reversed(traceback.extract_tb(error.__traceback__))
        )

    def _usage(self, row: sqlite3.Row) -> dict[str, object]:
        columns = row.keys()
        return {"project": row["project"] if "project" in columns else None}

    # -- settings --------------------------------------------------------------------------

    def settings(self, project_root: str | None = None) -> Settings:
        """The settings in force, for a project or without; read again when files changed."""
        return self._loaded(project_root).settings

    def problems(self, project_root: str | None = None) -> tuple[Problem, ...]:
        """What is wrong with them. The files with errors are watched from then on."""
        with self._parts_lock:
            problems = self._loaded(project_root).problems
            if any(problem.severity == "error" for problem in problems):
                # As they were when they were read, so that no mending is missed.
                config_toml, _, *own = self._settings[project_root or ""][1]
                files: dict[str, object] = {self.home.config_toml: config_toml}
                if project_root:
                    files[os.path.join(project_root, PROJECT_FILE)] = own[0]
                self._doubted = files | (self._doubted or {})
        return problems

    def doubted_changed(self) -> bool:
        """Whether one of those files has changed since; true at the first look of all."""
        with self._parts_lock:
            doubted, self._doubted = self._doubted, {}
            if doubted is None or any(_stamp(path) != known for path, known in doubted.items()):
                return True
            self._doubted = doubted
            return False

    def _loaded(self, project_root: str | None) -> Loaded:
        key = project_root or ""
        now = time.monotonic()
        with self._parts_lock:
            known = self._settings.get(key)
            if known is not None and now - known[0] < CONFIG_SECONDS:
                return known[2]
            stamp: tuple[object, ...] = (_stamp(self.home.config_toml), _stamp(self.home.env_file))
            if project_root:
                stamp = (*stamp, _stamp(os.path.join(project_root, PROJECT_FILE)))
            if known is not None and known[1] == stamp:
                self._settings[key] = (now, stamp, known[2])
                return known[2]
            loaded = config.load(self.home, project_root, environ=self.environ, strict=False)
            for problem in loaded.problems:
                self.note("config_problem", level="warning", problem=str(problem))
            self._settings[key] = (now, stamp, loaded)
            return loaded

    # -- parts that are costly to open -----------------------------------------------------

    def embedder(self) -> Embedder:
        """The embedder of the settings in force; the model itself loads at its first call."""
        from memsearch.sinks.embedders import create

        with self._parts_lock:
            self.used = time.monotonic()
            wanted = self.settings().embedding
            if self._embedder is None or self._embedder_key != wanted:
                if self._embedder is not None:
                    self._embedder.close()
                self._embedder = create(wanted, self.home, self.environ)
                self._embedder_key = wanted
            return self._embedder

    def store(self) -> Store:
        """The index; opened at its first use."""
        from memsearch.sinks.store import open_store

        with self._parts_lock:
            self.used = time.monotonic()
            if self._store is None:
                self._store = open_store(self.settings().milvus, self.home, self.environ)
            if not self._store_opening:
                self._openings += 1
                self._store_opening = self._openings
                self._store_folder = None
            return self._store

    def store_opening(self) -> int:
        """A number for each time that the store was taken into use; 0 while it is not."""
        return self._store_opening

    def index_was_taken_away(self) -> bool:
        """Whether the index's folder is no longer the one that the store has open."""
        from memsearch.sinks.store import index_uri

        with self._parts_lock:
            if not self._store_opening:
                return False
            folder = _folder_identity(index_uri(self.settings().milvus, self.home, self.environ))
            if self._store_folder is None:
                self._store_folder = folder  # it has just been made, or is a server
                return False
            return folder != self._store_folder

    def has_index(self) -> bool:
        """Whether there may be an index, told without opening it."""
        from memsearch.sinks.store import has_index

        return has_index(self.settings().milvus, self.home, self.environ)

    def cache(self) -> EmbeddingCache:
        """The embedding cache."""
        from memsearch.sinks.cache import EmbeddingCache

        with self._parts_lock:
            if self._cache is None:
                self._cache = EmbeddingCache(
                    self.home.embeddings_db,
                    on_damage=lambda damage: self.note(
                        "embedding_cache_damaged", level="warning", damage=str(damage)
                    ),
                )
            return self._cache

    def part(self, key: object, make: Callable[[], Any]) -> Any:
        """Something that is made once for a key, for instance a summariser."""
        with self._parts_lock:
            if key not in self._summarizers:
                self._summarizers[key] = make()
            return self._summarizers[key]

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """While a request runs: nothing it may be using is let go."""
        with self._guard:
            self._users += 1
        try:
            yield
        finally:
            with self._guard:
                self._users -= 1
                self.asked = self.used = time.monotonic()

    def is_idle(self) -> bool:
        """Whether neither a stage nor a request runs."""
        with self._guard:
            return not self._running and not self._users

    def let_go(self) -> None:
        """Close the store, the model and the cache; they open again when they are needed.

        They are kept as objects: a thread may be about to use one, which opens it again, and
        a second store beside that one would wait for its lock for ever.
        """
        with self._parts_lock:
            self._store_opening = 0
            for part in (self._store, self._embedder, self._cache):
                if part is not None:
                    part.close()

    def close(self) -> None:
        """Let go of everything but the log."""
        self.stop.set()
        self.let_go()


def record_failure(
    tx: Transaction,
    row: sqlite3.Row,
    stage: str,
    key: str,
    error: MemsearchError,
    attempt: int,
    due: float | None,
    usage: Mapping[str, object],
) -> None:
    """The events and tasks of one failure, inside the caller's transaction."""
    from memsearch.pipeline.events import session_key

    data: dict[str, Any] = {
        "stage": stage,
        "error_class": error.kind.value,
        "attempt": attempt,
        "due": due,
    }
    if error.tokens:
        data["usage"] = {
            "day": time.strftime("%Y-%m-%d"),
            "project": usage.get("project"),
            "provider": error.provider or stage,
            "tokens_in": error.tokens,
        }
    # What failed may quote what it failed on.
    text = excerpt(str(error), MAX_ERROR_CHARS)
    stream = str(row["stream"])
    settle(tx, stream)
    tx.append(Event(stream, EventType.STAGE_FAILED, data, body=text))
    if due is not None:
        tx.add_task(stage, key, due)
        return
    tx.append(
        Event(
            stream,
            EventType.DEAD_LETTERED,
            {"stage": stage, "error_class": error.kind.value, "attempts": attempt},
            body=text,
        )
    )
    if stream.startswith("turn:"):
        # Later turns of the session no longer wait for this one.
        tx.add_task("append", session_key(row["platform"], row["session"]))


def _folder_identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size)
