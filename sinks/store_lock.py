"""One process at a time holds Milvus Lite: the lock that the others wait at.

Milvus Lite locks its folder too, but refuses at once and says nothing of who is there. This
lock is taken before Lite is opened, so that processes take turns, and it names its holder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from memsearch.config.errors import ErrorClass, MemsearchError

#: Seconds between two tries.
POLL_SECONDS = 0.05

#: Called while the lock is waited for, with the seconds waited so far; True gives up at once
#: (for instance because a service that owns the store has come up).
OnWait = Callable[[float], bool]


class StoreLock:
    """An exclusive ``flock`` on a file that holds the process id of who has it.

    The system lets the lock go when its holder ends, however it ends, so a stale file locks
    nobody out. The file itself stays: removing it would let two processes lock two files of
    the same name.

    Args:
        path: The lock file; its folder is made if it is missing.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object has the lock."""
        return self._descriptor is not None

    def try_acquire(self) -> bool:
        """Take the lock if nobody has it.

        Raises:
            OSError: the file cannot be opened.
        """
        import fcntl

        if self._descriptor is not None:
            return True
        folder = os.path.dirname(self.path)
        if folder:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        # Not inherited by child processes (PEP 446): they would keep the lock.
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    def acquire(self, wait: float, on_wait: OnWait | None = None) -> None:
        """Take the lock, waiting for it if need be.

        Args:
            wait: Seconds to wait at most.
            on_wait: Asked before each further try.

        Raises:
            MemsearchError: ``BUSY``, naming the holder.
            OSError: the file cannot be opened.
        """
        started = time.monotonic()
        while not self.try_acquire():
            waited = time.monotonic() - started
            if waited >= wait or (on_wait is not None and on_wait(waited)):
                raise busy(self.holder())
            time.sleep(min(POLL_SECONDS, wait - waited))

    def holder(self) -> int | None:
        """The process that has the lock, or had it last; None if it cannot be told."""
        try:
            with open(self.path, encoding="ascii", errors="replace") as file:
                text = file.read(32)
        except OSError:
            return None
        return int(text) if text.strip().isdigit() else None

    def release(self) -> None:
        """Let the lock go; without it, nothing happens."""
        import fcntl

        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.ftruncate(descriptor, 0)
            # Closing alone would leave it locked while a child that is being started still
            # has its copy of the descriptor.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def busy(holder: int | None) -> MemsearchError:
    """The error of who does not get the store."""
    if holder == os.getpid():
        who = "this same process"
    elif holder is not None:
        who = f"process {holder}"
    else:
        who = "another process"
    return MemsearchError(
        f"the index is in use by {who}",
        kind=ErrorClass.BUSY,
        hint="try again in a moment; `memsearch workers status` shows whether it is the workers",
    )
