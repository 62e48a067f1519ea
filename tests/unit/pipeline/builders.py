"""Small stories for the tests of the pipeline, written through the real log."""

from __future__ import annotations

from memsearch.config import statedb
from memsearch.pipeline.events import Event, EventType, turn_stream
from memsearch.pipeline.log import EventLog

PROJECT = {"root": "/w", "memory_dir": "/w/.memsearch/memory", "base": "/w", "collection": "c"}


def stream(turn: str) -> str:
    return turn_stream("codex", turn)


def write(log: EventLog, *events: Event) -> None:
    with log.transaction() as tx:
        for event in events:
            tx.append(event)


def captured(turn: str, at: float = 0.0, *, ago: float = 0.0, now: float = 0.0) -> Event:
    """A captured turn; ``ago`` seconds before ``now`` it was written."""
    return Event(
        stream(turn),
        EventType.TURN_CAPTURED,
        {
            "platform": "codex",
            "turn": turn,
            "session": "s",
            "project": PROJECT,
            "day": "2026-03-03",
            "time": "10:00",
            "at": statedb.utc_now(at),
        },
        body="{}",
        at=statedb.utc_now((now or at) - ago),
    )


def summarized(turn: str, at: float) -> Event:
    return Event(stream(turn), EventType.TURN_SUMMARIZED, {}, body="[]", at=statedb.utc_now(at))


def appended(turn: str, at: float) -> Event:
    return Event(stream(turn), EventType.TURN_APPENDED, {"path": "/x"}, at=statedb.utc_now(at))


def failed(turn: str, at: float, kind: str = "server", attempt: int = 1, due: float = 0.0) -> Event:
    data = {"stage": "summarize", "error_class": kind, "attempt": attempt, "due": due or at}
    return Event(
        stream(turn), EventType.STAGE_FAILED, data, body="it broke", at=statedb.utc_now(at)
    )


def died(turn: str, at: float, kind: str = "server") -> Event:
    data = {"stage": "summarize", "error_class": kind, "attempts": 5}
    return Event(
        stream(turn), EventType.DEAD_LETTERED, data, body="it broke", at=statedb.utc_now(at)
    )
