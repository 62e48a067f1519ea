"""What the demo shows of a turn's way: each stage as the event log tells it, and its time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memsearch.config import worker_lock
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.pipeline.events import Event, EventType, turn_stream
from memsearch.pipeline.log import EventLog, event_of

#: Seconds between two looks into the log.
LOOK_SECONDS = 0.03
#: Seconds without any event after which the demo gives up; the slowest step is the conversion
#: of the model, a few seconds on an ordinary machine.
PATIENCE_SECONDS = 240.0
#: Seconds that a hook's worker has to take its lock, or a crashed one to be noticed.
WORKER_SECONDS = 3.0
#: Tries at something that another process holds.
MAX_BUSY = 4
#: Lines of the worker's log that a failure shows.
LOG_LINES = 8

#: The event that ends each stage, in the order of a turn's way.
STAGES = {
    EventType.TURN_CAPTURED: "capture",
    EventType.TURN_SUMMARIZED: "summarize",
    EventType.TURN_APPENDED: "append",
    EventType.DOCUMENT_CHUNKED: "chunk",
    EventType.DOCUMENT_EMBEDDED: "embed",
    EventType.DOCUMENT_INDEXED: "upsert",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A stage that has ended, ``seconds`` after the one before it."""

    stage: str
    seconds: float
    data: Mapping[str, Any]


def follow(
    home: Home,
    turn: str,
    after: int,
    show: Callable[[Step], None],
    wait: Callable[[str], None],
) -> float:
    """Follow one turn from its hook until it can be searched.

    Args:
        home: The demo's home.
        turn: The turn's id.
        after: The log's last event before the hook; the hook's own comes next.
        show: Called with each stage that has ended.
        wait: Called with the name of the stage that is waited for.

    Returns:
        Seconds from the hook's event to the end.

    Raises:
        MemsearchError: A stage gave up, the worker ended, or nothing happens any more.
    """
    stream = turn_stream("claude-code", turn)
    names = list(STAGES.values())
    log = EventLog(home.state_db)
    try:
        started = last = 0.0
        change = None  # the document's change that this turn's entry was
        moved = time.monotonic()
        alive = moved
        wait(names[0])
        while True:
            for event in _news(log, after):
                after, moved = event.seq, time.monotonic()
                at = datetime.fromisoformat(event.at).timestamp()
                if event.type is EventType.HOOK_RECEIVED:
                    started = last = at
                if _is_hopeless(event):
                    raise MemsearchError(
                        f"{event.data['stage']} failed: {log.payload(event.id)}",
                        kind=ErrorClass(event.data["error_class"]),
                    )
                if event.type is EventType.TURN_SKIPPED:
                    raise MemsearchError("the recorded turn was skipped", kind=ErrorClass.BUG)
                if event.type is EventType.DOCUMENT_CHANGED and change is None:
                    change = event.seq
                if event.type not in STAGES or _of_another(event, stream):
                    continue
                stage = STAGES[event.type]
                show(Step(stage, at - last, event.data))
                last = at
                if stage == "upsert" and change is not None and event.data["change"] >= change:
                    return at - started
                wait(names[min(names.index(stage) + 1, len(names) - 1)])
            if worker_lock.is_held(home):
                alive = time.monotonic()
            if time.monotonic() - alive > WORKER_SECONDS:
                raise MemsearchError(
                    f"the worker ended before its work was done\n{log_tail(home)}".rstrip(),
                    kind=ErrorClass.BUG,
                )
            if time.monotonic() - moved > PATIENCE_SECONDS:
                raise MemsearchError(
                    f"nothing has happened for {PATIENCE_SECONDS:g} s\n{log_tail(home)}".rstrip(),
                    kind=ErrorClass.TIMEOUT,
                )
            time.sleep(LOOK_SECONDS)
    finally:
        log.close()


def last_event(home: Home) -> int:
    """The number of the log's last event; 0 before there is one."""
    if not os.path.exists(home.state_db):
        return 0
    log = EventLog(home.state_db)
    try:
        return int(log.value("SELECT MAX(seq) FROM events") or 0)
    finally:
        log.close()


def _news(log: EventLog, after: int) -> list[Event]:
    rows = log.rows("SELECT * FROM events WHERE seq > ? ORDER BY seq", (after,))
    return [event_of(row) for row in rows]


def _is_hopeless(event: Event) -> bool:
    """Whether a stage gave up, or fails at what a person has to mend first.

    A worker waits for a full disk to be freed, or for a lock, as long as it takes; somebody
    who watches a demo does not.
    """
    if event.type is EventType.DEAD_LETTERED:
        return True
    if event.type is not EventType.STAGE_FAILED:
        return False
    kind, attempt = event.data["error_class"], int(event.data["attempt"])
    return kind == ErrorClass.DISK_FULL or (kind == ErrorClass.BUSY and attempt >= MAX_BUSY)


def _of_another(event: Event, stream: str) -> bool:
    return event.stream.startswith("turn:") and event.stream != stream


def log_tail(home: Home) -> str:
    """The last lines of the worker's log: what happened, as it was written."""
    try:
        with open(os.path.join(home.logs, "worker.log"), encoding="utf-8") as file:
            lines = file.read().splitlines()[-LOG_LINES:]
    except OSError:
        return ""
    shown = []
    for line in lines:
        try:
            facts = json.loads(line)
        except ValueError:
            shown.append(line)
            continue
        words = " ".join(f"{k}={v}" for k, v in facts.items() if k not in ("event", "timestamp"))
        shown.append(f"{facts.get('event', '')} {words}")
    return "\n".join(f"  {line[:300]}" for line in shown)
