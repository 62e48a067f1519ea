"""A lock that is handed to those who wait in the order in which they came."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType


class FairLock:
    """Mutual exclusion without starvation; not reentrant.

    ``threading.Lock`` may be taken again by the thread that has just let it go, so a thread
    that writes batch after batch keeps all others out until its last one. Here ``release``
    hands the lock to the first of those who wait.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self) -> None:
        """Wait for the lock and take it."""
        with self._guard:
            if not self._held:
                self._held = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            turn.acquire()
        except BaseException:  # Ctrl-C: whoever comes next must not wait for this thread
            with self._guard:
                queued = turn in self._waiting
                if queued:
                    self._waiting.remove(turn)
            if not queued:
                self.release()
            raise

    def release(self) -> None:
        """Hand the lock on."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._held = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
