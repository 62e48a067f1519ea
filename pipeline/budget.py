"""The day's tokens: reserved before a call, settled after it."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta

from memsearch.pipeline.log import EventLog


def today(now: float | None = None) -> str:
    """The local day that tokens are counted under."""
    return time.strftime("%Y-%m-%d", time.localtime(now))


def next_midnight(now: float) -> float:
    """When the local day turns, in seconds since the epoch."""
    here = datetime.fromtimestamp(now).astimezone()
    tomorrow = (here + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return tomorrow.replace(tzinfo=None).astimezone().timestamp()


class Budget:
    """Who may spend. Thread-safe; one per process that runs stages."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._reserved: dict[str, int] = {}

    def spent(self, day: str | None = None) -> int:
        """Tokens counted for a local day, today by default."""
        value = self._log.value(
            "SELECT SUM(tokens_in + tokens_out) FROM usage WHERE day = ?", (day or today(),)
        )
        return int(value or 0)

    def reserve(self, stream: str, tokens: int, cap: int) -> str:
        """Set tokens aside for a call.

        A call goes ahead when it fits. One that does not fit goes ahead alone while anything
        is left of the cap: estimates are upper bounds, and a cap smaller than one estimate
        would otherwise never let anything through.

        Args:
            stream: Who spends.
            tokens: The most that the call will cost; 0 is free and always goes ahead.
            cap: Tokens a day; 0 for no cap.

        Returns:
            ``ok``; ``wait`` while other calls may still leave room; ``paused`` when the
            day's tokens are spent.
        """
        if tokens <= 0:
            return "ok"
        with self._lock:
            if cap > 0:
                spent = self.spent()
                reserved = sum(self._reserved.values())
                if spent >= cap:
                    return "paused"
                if reserved and spent + reserved + tokens > cap:
                    return "wait"
            self._reserved[stream] = tokens
            return "ok"

    def settle(self, stream: str) -> None:
        """Let go of a reservation; what was spent is in the log by now."""
        with self._lock:
            self._reserved.pop(stream, None)
