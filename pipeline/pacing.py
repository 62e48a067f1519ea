"""A provider that asks to wait is asked nothing until then, whatever waits for it.

Else each turn of a long queue would find out for itself that it comes too early, and would
use up its tries on that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline.retry import MAX_RETRY_AFTER_SECONDS

#: Seconds of a pause for which turns go back into the queue without an event each; what waits
#: for longer gets a due time, which ``status`` shows.
SHORT_SECONDS = 60.0
#: Turns that are put off in a second at the most, on average.
PUT_OFF_A_SECOND = 50.0
#: Seconds for which the turns of a long queue are put off, though the pause is shorter, at most.
MAX_EXTRA_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Pause:
    """Over when either clock says so: the one that only grows stands still while the machine
    sleeps, the other may be set back."""

    until: float  # by time.monotonic
    until_time: float  # by time.time
    error: MemsearchError

    def left(self) -> float:
        """Seconds that are left of it; 0 or less when it is over."""
        return min(self.until - time.monotonic(), self.until_time - time.time())


class Pacing:
    """Which providers asked to wait, and until when. Thread-safe; one per engine.

    A provider is whatever tells one place that is asked from another. Nothing of it outlives
    the process: the first call of the next one asks again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pauses: dict[Hashable, _Pause] = {}
        self._limited: set[Hashable] = set()
        self._answered: dict[Hashable, float] = {}

    def answered(self, provider: Hashable) -> None:
        """Take in a success."""
        with self._lock:
            self._answered[provider] = time.time()

    def heard(self, provider: Hashable, error: MemsearchError, since: float) -> None:
        """Take in a failure; one that says when to come back begins a pause.

        A refusal is no try (``error.is_try``) where the provider has answered somebody else in
        the meantime: a limit that lets something through is no outage. Nor is it where the call
        was under way when another one began the pause.

        Args:
            provider: Who was asked.
            error: What came of it.
            since: When the one that asked last failed or began to wait, in seconds since
                the epoch.
        """
        if not error.retry_after and error.kind is not ErrorClass.RATE_LIMIT:
            return
        with self._lock:
            known = self._pauses.get(provider)
            left = known.left() if known is not None else 0.0
            if left > 0 or self._answered.get(provider, 0.0) > since:
                error.is_try = False
            if not error.retry_after:
                return
            self._limited.add(provider)
            seconds = min(error.retry_after, MAX_RETRY_AFTER_SECONDS)
            if left < seconds:
                self._pauses[provider] = _Pause(
                    time.monotonic() + seconds, time.time() + seconds, error
                )

    def left(self, provider: Hashable) -> float:
        """Seconds until the provider may be asked; 0 for now."""
        with self._lock:
            pause = self._pauses.get(provider)
            if pause is None:
                return 0.0
            left = pause.left()
            if left <= 0:
                del self._pauses[provider]
            return max(left, 0.0)

    def has_limit(self, provider: Hashable) -> bool:
        """Whether the provider has ever asked to wait: it is asked for little at a time."""
        with self._lock:
            return provider in self._limited

    def check(self, provider: Hashable) -> None:
        """Go on, or say that the provider asked to wait.

        Raises:
            MemsearchError: What the provider said, with the seconds that are left; no try of
                whoever is told so.
        """
        left = self.left(provider)
        with self._lock:
            pause = self._pauses.get(provider)
        if not left or pause is None:
            return
        said = pause.error
        told = MemsearchError(
            f"not asked yet: {said.message}", kind=said.kind, hint=said.hint, retry_after=left
        )
        told.is_try = False
        raise told

    def put_off(self, provider: Hashable, waiting: Callable[[], int]) -> float:
        """For how long a turn goes back into the queue, out of the way of those of others.

        Args:
            provider: Who is to be asked.
            waiting: Counts the turns that wait. A long queue is gone through less often.

        Returns:
            Seconds; 0 when the provider may be asked now.

        Raises:
            MemsearchError: as ``check``, where the pause is a long one.
        """
        left = self.left(provider)
        if left > SHORT_SECONDS:
            self.check(provider)
        return max(left, min(waiting() / PUT_OFF_A_SECOND, MAX_EXTRA_SECONDS)) if left else 0.0

    def pauses(self) -> bool:
        """Whether a pause goes on."""
        with self._lock:
            return any(pause.left() > 0 for pause in self._pauses.values())
