"""The home that a command works in, and the worker that it may need."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from memsearch.config import worker_lock
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home

if TYPE_CHECKING:
    from memsearch.pipeline.log import EventLog

#: Seconds that a worker has to end before it is killed; ``workers stop`` promises ten.
STOP_SECONDS = 8.0


def current_home(*, create: bool = False) -> Home:
    """The home that the environment names.

    Args:
        create: Make its folders if they are missing.
    """
    home = Home.from_env(os.environ)
    if create:
        with usable(home):
            home.create()
    return home


@contextlib.contextmanager
def usable(home: Home) -> Iterator[None]:
    """Say of what the system refuses in the home what it is and what to do."""
    try:
        yield
    except OSError as error:
        raise MemsearchError(
            f"{error.filename or home.root}: {error.strerror}",
            kind=ErrorClass.PERMISSION,
            hint="check its owner and permissions, or set MEMSEARCH_HOME to another folder",
        ) from error


def open_log(home: Home) -> EventLog | None:
    """The event log, or None where nothing was ever captured."""
    from memsearch.pipeline.log import EventLog

    return EventLog(home.state_db) if os.path.exists(home.state_db) else None


def take_worker_lock(home: Home) -> int | None:
    """The worker's lock for this process; None while a worker lives."""
    with usable(home):
        fd = worker_lock.take_lock(home)
        if fd is not None:
            worker_lock.write_pid(fd)
    return fd


def start_worker(home: Home, *, by_hand: bool = True) -> int | None:
    """Start a worker unless one lives; its pid, or None.

    Args:
        home: Whose worker.
        by_hand: A person asks for it: no wait after starts that died early.
    """
    from memsearch.hooks.spawn import start_worker as start

    try:
        return start(home, dict(os.environ), by_hand=by_hand)
    except OSError as error:
        raise MemsearchError(
            f"no worker could be started: {error}",
            kind=ErrorClass.PERMISSION,
            hint="memsearch workers --foreground shows why",
        ) from error


def start_for_next_time(home: Home, environ: Mapping[str, str]) -> None:
    """Start a worker that will answer the next question at once, if there is a log to work on.

    A worker that cannot be started is no fault of a question that has been answered.
    """
    if not os.path.exists(home.state_db) or worker_lock.is_held(home):
        return
    from memsearch.hooks.enqueue import autostart

    if autostart(home, dict(environ)):
        with contextlib.suppress(MemsearchError):
            start_worker(home, by_hand=False)


def stop_worker(home: Home) -> bool:
    """End the living worker, gently, then not.

    Returns:
        False when none lived.

    Raises:
        MemsearchError: It could not be ended.
    """
    import signal

    # A worker that is just being started holds the lock already and has not said who it is.
    wait_until(
        lambda: worker_lock.holder_pid(home) is not None or not worker_lock.is_held(home),
        STOP_SECONDS,
    )
    pid = worker_lock.holder_pid(home)
    if pid is None:
        if worker_lock.is_held(home):
            raise MemsearchError(
                f"something holds {home.worker_lock} and does not say who it is",
                kind=ErrorClass.BUSY,
                hint="fuser names the process",
            )
        return False
    for signum, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 2.0)):
        try:
            os.kill(pid, signum)
        except ProcessLookupError:
            return True
        except PermissionError as error:
            raise MemsearchError(
                f"the worker (pid {pid}) belongs to somebody else", kind=ErrorClass.PERMISSION
            ) from error
        if wait_until(lambda: worker_lock.holder_pid(home) != pid, seconds):
            return True
    raise MemsearchError(f"the worker (pid {pid}) does not end", kind=ErrorClass.BUSY)


def wait_until(done: Callable[[], bool], seconds: float, step: float = 0.05) -> bool:
    """Wait until something is so, at most ``seconds``."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(step)
    return True
