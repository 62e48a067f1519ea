"""Again, when, or never: the one decision about a stage that failed. Pure.

It looks at the class of the failure, the stage, how often it was tried and how long it has
been going on, and at nothing else; the caller writes down what it says.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from memsearch.config.errors import ErrorClass

#: Failures that another try may mend.
TRANSIENT = frozenset(
    {
        ErrorClass.NETWORK,
        ErrorClass.TIMEOUT,
        ErrorClass.RATE_LIMIT,
        ErrorClass.SERVER,
        ErrorClass.BAD_ANSWER,
        ErrorClass.PERMISSION,
    }
)
#: Failures of this machine that end when somebody frees space, lets go of a lock or mends the
#: configuration: they are tried on without end, at the longest wait, and ``status`` names them.
WAITING = frozenset({ErrorClass.BUSY, ErrorClass.DISK_FULL, ErrorClass.RULES})
#: Seconds between looks at a transcript that does not hold the turn yet.
SETTLE_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.5, 3.0)
#: Each wait is so many times the one before it.
FACTOR = 2.5
#: No wait is longer than this, in seconds; a Retry-After may be.
MAX_WAIT_SECONDS = 1_800.0
#: No Retry-After is believed beyond this, in seconds.
MAX_RETRY_AFTER_SECONDS = 86_400.0
#: A wait is drawn from so much of itself to itself, so that what failed together does not
#: come back together.
JITTER_FROM = 0.75


@dataclass(frozen=True, slots=True)
class Decision:
    """``due``: seconds since the epoch of the next try; None: give up and say so."""

    due: float | None

    @property
    def gives_up(self) -> bool:
        return self.due is None


def decide(
    kind: ErrorClass,
    *,
    stage: str,
    attempt: int,
    now: float,
    attempts: int,
    base_seconds: float,
    retry_after: float | None = None,
    draw: float | None = None,
) -> Decision:
    """Whether and when a stage is tried again.

    Args:
        kind: The class of the failure.
        stage: The stage that failed.
        attempt: How many tries have failed by now, 1 or more.
        now: Seconds since the epoch.
        attempts: Tries in all for a transient failure (``retry.attempts``).
        base_seconds: The first wait (``retry.base_seconds``); 60 s and five tries span
            about half an hour.
        retry_after: Seconds that the other side asked for.
        draw: A number from 0 to 1 in place of a random one.

    Returns:
        The decision.
    """
    if draw is None:
        draw = random.random()  # noqa: S311 (spreads load, guards nothing)
    if stage == "capture" and kind is ErrorClass.NOT_YET:
        if attempt > len(SETTLE_SECONDS):
            return Decision(None)
        return Decision(now + SETTLE_SECONDS[attempt - 1])
    jitter = JITTER_FROM + (1.0 - JITTER_FROM) * draw
    if kind in WAITING:
        first = 1.0 if kind is ErrorClass.BUSY else 15.0
        wait = min(first * FACTOR ** min(attempt - 1, 20), 300.0)
        return Decision(now + wait * jitter)
    if kind not in TRANSIENT and kind is not ErrorClass.BUG:
        return Decision(None)
    if attempt >= attempts:
        return Decision(None)
    wait = min(base_seconds * FACTOR ** min(attempt - 1, 20), MAX_WAIT_SECONDS) * jitter
    if retry_after is not None:
        # Never sooner than asked; spread a little after it.
        wait = max(wait, min(retry_after, MAX_RETRY_AFTER_SECONDS) + base_seconds * 0.1 * draw)
    return Decision(now + wait)
