"""Who is the one worker of a home: an OS lock, and the stamp of a start that has not settled.

The lock dies with its holder, whatever ends it; no pid is ever trusted.
"""

from __future__ import annotations

import fcntl
import os
import time

from memsearch.config.paths import Home

#: Names the inherited, locked descriptor in the worker's environment.
LOCK_FD_VARIABLE = "MEMSEARCH_LOCK_FD"
#: Seconds to wait after a start that died before its first refill; doubled for each more.
FIRST_BACKOFF_SECONDS = 1.0
#: The longest such wait, in seconds.
MAX_BACKOFF_SECONDS = 300.0
#: How often the lock is tried while only those hold it who ask whether a worker lives, and
#: the seconds between two tries.
TRIES, TRY_SECONDS = 100, 0.0005


def take_lock(home: Home) -> int | None:
    """The locked descriptor of ``run/worker.lock``, or None while a worker lives.

    The pid of the last holder leaves the file with it: until the new holder has written its
    own, the file names nobody, rather than a process that may be somebody else's by now.

    Raises:
        OSError: The file cannot be made, or its file system knows no locks.
    """
    fd = os.open(home.worker_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for _ in range(TRIES):
            if _try(fd, fcntl.LOCK_EX):
                os.ftruncate(fd, 0)
                return fd
            # Refused by a worker, or by somebody who asks for one (``is_held``) and lets go at
            # once. To take that one for a worker would lose a start. It leaves room for a shared
            # lock, a worker does not.
            if not _try(fd, fcntl.LOCK_SH):
                break
            fcntl.flock(fd, fcntl.LOCK_UN)
            time.sleep(TRY_SECONDS)
    except OSError as error:
        os.close(fd)
        raise OSError(error.errno, error.strerror, home.worker_lock) from error
    os.close(fd)
    return None


def _try(fd: int, kind: int) -> bool:
    """Lock if nobody else has; a file system without locks must not look like a worker."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError, InterruptedError):
        return False
    return True


def is_ours(home: Home, fd: int) -> bool:
    """Whether a descriptor is still of the file that others look for the lock at.

    Somebody may have deleted ``run/``: then the lock that is held keeps nobody out.
    """
    try:
        return os.path.samestat(os.fstat(fd), os.stat(home.worker_lock))
    except OSError:
        return False


def start_stamp(home: Home) -> str:
    """The file that a start leaves until the worker's first refill has gone through."""
    return os.path.join(home.run, "starting")


def backoff_left(home: Home, now: float) -> float:
    """Seconds to wait before another start, because the last ones died early. 0: go on."""
    try:
        with open(start_stamp(home), encoding="ascii") as file:
            failures, at = file.read().split()
        wait = min(FIRST_BACKOFF_SECONDS * 2.0 ** min(int(failures) - 1, 20), MAX_BACKOFF_SECONDS)
        left = float(at) + wait - now
    except (OSError, ValueError):
        return 0.0
    # A clock that was set back must not hold workers off for days.
    return left if 0.0 < left <= MAX_BACKOFF_SECONDS else 0.0


def early_deaths(home: Home) -> int:
    """How many starts in a row have not reached their first refill; one may be under way."""
    try:
        with open(start_stamp(home), encoding="ascii") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def stamp_start(home: Home, now: float) -> None:
    """Count a start that has not yet reached its first refill."""
    path = start_stamp(home)
    failures = early_deaths(home)
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "w", encoding="ascii") as file:
        file.write(f"{failures + 1} {now:f}")
    os.replace(temporary, path)


def clear_stamp(home: Home) -> None:
    """The start has settled."""
    try:  # contextlib.suppress would cost every hook an import
        os.unlink(start_stamp(home))
    except FileNotFoundError:
        return


def is_held(home: Home) -> bool:
    """Whether a worker lives. The lock is tried shared for a moment, so that two that ask at
    once do not take each other for a worker. Where there are no locks, none does."""
    try:
        fd = os.open(home.worker_lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _try(fd, fcntl.LOCK_SH)
    except OSError:
        return False
    finally:
        os.close(fd)


def fault(home: Home) -> str:
    """Why no worker can hold the lock, in words; empty where one can, or none was tried yet."""
    try:
        fd = os.open(home.worker_lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return ""  # no home yet, or one that is said to be unwritable elsewhere
    try:
        _try(fd, fcntl.LOCK_SH)
    except OSError as error:
        return (
            f"no worker can run, {home.worker_lock} cannot be locked: {error.strerror};"
            " set MEMSEARCH_HOME to a folder on a disk of this machine"
        )
    finally:
        os.close(fd)
    return ""


def write_pid(fd: int) -> None:
    """Put the holder's pid into the lock file, for people and ``status``; nobody trusts it."""
    os.ftruncate(fd, 0)
    os.pwrite(fd, str(os.getpid()).encode(), 0)


def holder_pid(home: Home) -> int | None:
    """The pid in the lock file while the lock is held."""
    if not is_held(home):
        return None
    try:
        with open(home.worker_lock, encoding="ascii") as file:
            return int(file.read() or 0) or None
    except (OSError, ValueError):
        return None
