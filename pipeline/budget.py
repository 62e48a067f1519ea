"""The day's tokens: reserved before a call, settled after it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from memsearch.config.errors import ErrorClass
from memsearch.pipeline.events import Event, EventType
from memsearch.pipeline.log import EventLog, Transaction

#: Seconds between two looks of a call that waits for others to settle.
SETTLE_SECONDS = 0.05


def today(now: float | None = None) -> str:
    """The local day that tokens are counted under."""
    return time.strftime("%Y-%m-%d", time.localtime(now))


def next_midnight(now: float) -> float:
    """When the local day turns, in seconds since the epoch."""
    here = datetime.fromtimestamp(now).astimezone()
    tomorrow = (here + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return tomorrow.replace(tzinfo=None).astimezone().timestamp()


class Budget:
    """Who may spend. Thread-safe; one per process that runs stages.

    A reservation lies in the database while its call is under way, so that what a killed
    worker spent is not forgotten: :meth:`settle_killed` counts it.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._waiting_lock = threading.Lock()
        self._waiting: list[tuple[str, ...]] = []

    def spent(self, day: str | None = None) -> int:
        """Tokens counted for a local day, today by default."""
        value = self._log.value(
            "SELECT SUM(tokens_in + tokens_out) FROM usage WHERE day = ?", (day or today(),)
        )
        return int(value or 0)

    def reserve(self, stream: str, tokens: int, cap: int, *, project: str, provider: str) -> str:
        """Set tokens aside for a call.

        A call goes ahead when it fits. One that does not fit goes ahead alone while anything
        is left of the cap: estimates are upper bounds, and a cap smaller than one estimate
        would otherwise never let anything through.

        Args:
            stream: Who spends.
            tokens: The most that the call will cost; 0 is free and always goes ahead.
            cap: Tokens a day; 0 for no cap.
            project: Whose turn it is.
            provider: Who is asked.

        Returns:
            ``ok``; ``wait`` while other calls may still leave room; ``paused`` when the
            day's tokens are spent.
        """
        if tokens <= 0:
            return "ok"
        with self._log.transaction() as tx:
            if cap > 0:
                day = today()
                row = tx.row(
                    "SELECT COALESCE(SUM(tokens_in + tokens_out), 0) AS spent FROM usage"
                    " WHERE day = ?",
                    (day,),
                )
                aside = tx.row(
                    "SELECT COALESCE(SUM(tokens), 0) AS tokens FROM reservations WHERE stream <> ?",
                    (stream,),
                )
                spent = int(row["spent"]) if row is not None else 0
                reserved = int(aside["tokens"]) if aside is not None else 0
                if spent >= cap:
                    return "paused"
                if reserved and spent + reserved + tokens > cap:
                    return "wait"
            tx.execute(
                "INSERT OR REPLACE INTO reservations(stream, day, project, provider, tokens)"
                " VALUES (?, ?, ?, ?, ?)",
                (stream, today(), project, provider, tokens),
            )
        return "ok"

    def reserve_in_turn(
        self,
        order: tuple[str, ...],
        stop: threading.Event,
        ask: Callable[[], str],
    ) -> str:
        """Ask until the answer is not ``wait``; the oldest of those that wait goes first.

        Args:
            order: Sorts those that wait: a turn's time, then its stream.
            stop: Set when the worker ends.
            ask: :meth:`reserve` with its arguments.

        Returns:
            As :meth:`reserve`; ``wait`` only when the worker ends.
        """
        with self._waiting_lock:
            self._waiting.append(order)
        try:
            while True:
                with self._waiting_lock:
                    first = min(self._waiting) == order
                verdict = ask() if first else "wait"
                if verdict != "wait" or stop.wait(SETTLE_SECONDS):
                    return verdict
        finally:
            with self._waiting_lock:
                self._waiting.remove(order)

    def settle_killed(self) -> int:
        """Count what calls cost that a killed worker had under way; for a start that is alone.

        Returns:
            How many there were.
        """
        with self._log.transaction() as tx:
            rows = tx.rows("SELECT * FROM reservations")
            for row in rows:
                settle(tx, row["stream"])
                usage = {
                    "day": row["day"],
                    "project": row["project"],
                    "provider": row["provider"],
                    "tokens_in": row["tokens"],
                    "estimated": True,
                }
                if row["stream"].startswith("compact:"):
                    tx.append(
                        Event(
                            row["stream"],
                            EventType.COMPACT_FAILED,
                            {"error_class": ErrorClass.INTERRUPTED.value, "usage": usage},
                        )
                    )
                    continue
                turn = tx.row("SELECT * FROM turns WHERE stream = ?", (row["stream"],))
                if turn is None or turn["state"] != "open":
                    continue
                tx.append(
                    Event(
                        row["stream"],
                        EventType.STAGE_FAILED,
                        {
                            "stage": turn["stage"],
                            "error_class": ErrorClass.INTERRUPTED.value,
                            # No fault of the turn: it does not count as a try, and it was
                            # at work, so it waits for nothing.
                            "attempt": turn["attempts"],
                            "due": None,
                            "usage": usage,
                        },
                        body="the worker ended during the call",
                    )
                )
        return len(rows)


def settle(tx: Transaction, stream: str) -> None:
    """Let go of a reservation, in the transaction that writes down what was spent."""
    tx.execute("DELETE FROM reservations WHERE stream = ?", (stream,))
