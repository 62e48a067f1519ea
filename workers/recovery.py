"""Recovery: the queue, the shadow of the log, is filled again from what the log says."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memsearch.config import statedb
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home, write_atomic
from memsearch.pipeline import put_aside, renewal
from memsearch.pipeline.events import Event, EventType, session_key
from memsearch.pipeline.log import EventLog, Transaction
from memsearch.pipeline.queue import flush
from memsearch.pipeline.redact import redact
from memsearch.pipeline.stages.documents import COST

if TYPE_CHECKING:
    import sqlite3

#: Seconds after which a file that a killed hook left half written in the spool is deleted.
#: That hook told nobody that it had stored anything.
TORN_SECONDS = 3_600.0
#: Bytes that are kept of a file of the spool that is no hook.
MAX_BAD_BYTES = 65_536
#: Turns that are let go at once when a spent budget has room again; the others follow.
RELEASED_AT_ONCE = 200
#: Seconds that an event may lie ahead of the clock until the clock counts as set back.
CLOCK_SLACK_SECONDS = 5.0

#: Of a turn ``t``: no earlier turn of its session is open.
_IS_FIRST = (
    "NOT EXISTS (SELECT 1 FROM turns AS e WHERE e.state = 'open' AND e.platform = t.platform"
    " AND e.session = t.session AND (e.at, e.position, e.stream) < (t.at, t.position, t.stream))"
)


#: Of a document: nobody has to agree to its cost first.
_NOT_HELD = f"COALESCE(error_class, '') <> '{COST}'"


@dataclass(frozen=True, slots=True)
class Work:
    """A stage that something waits for; ``due`` None: at once."""

    stage: str
    key: str
    due: float | None = None


def open_work(reader: EventLog | Transaction) -> list[Work]:
    """What every stream that is not at its end waits for, one item for each task.

    Args:
        reader: The log, or a transaction in it.
    """
    work: dict[tuple[str, str], Work] = {}

    def add(stage: str, key: str, due: float | None) -> None:
        known = work.get((stage, key))
        # Several streams may wait for one task: the first due decides.
        if known is None or (known.due is not None and (due is None or due < known.due)):
            work[(stage, key)] = Work(stage, key, due)

    for row in reader.rows("SELECT stream, due FROM hooks WHERE state = 'open' ORDER BY seq"):
        add("capture", row["stream"], row["due"])
    # A summarised turn behind an open one of its session waits for that one, and for no task.
    for row in reader.rows(
        "SELECT stream, platform, session, stage, due, error_class FROM turns AS t"
        f" WHERE state = 'open' AND (stage = 'summarize' OR {_IS_FIRST}) ORDER BY at, position"
    ):
        if row["stage"] == "append":
            add("append", session_key(row["platform"], row["session"]), row["due"])
        elif row["error_class"] != "budget":
            add("summarize", row["stream"], row["due"])
    for row in reader.rows(
        "SELECT stream, collection, stage, due FROM documents WHERE state = 'open'"
        f" AND {_NOT_HELD} ORDER BY seq"
    ):
        add(row["stage"], _document_key(row), row["due"])
    for collection, due in renewal.ready(reader):
        add("upsert", collection, due)
    return list(work.values())


def _document_key(row: sqlite3.Row) -> str:
    return str(row["stream"] if row["stage"] == "chunk" else row["collection"])


_NEXT_DUE = (
    "SELECT MIN(COALESCE(due, 0)) FROM hooks WHERE state = 'open'",
    f"SELECT MIN(COALESCE(due, 0)) FROM documents WHERE state = 'open' AND {_NOT_HELD}",
    # A turn that waits for an earlier one of its session has nothing to do, whatever its due.
    "SELECT MIN(COALESCE(due, 0)) FROM turns AS t WHERE state = 'open'"
    f" AND COALESCE(error_class, '') <> 'budget' AND (stage = 'summarize' OR {_IS_FIRST})",
)


def next_due(log: EventLog) -> float | None:
    """When the next stage has something to do, in seconds since the epoch.

    Returns:
        A time, 0 or past for at once; None when nothing is open, or all that is open waits
        for the budget.
    """
    dues = [log.value(sql) for sql in _NEXT_DUE]
    dues += [due or 0.0 for _, due in renewal.ready(log)]
    return min((float(due) for due in dues if due is not None), default=None)


def refill(log: EventLog) -> int:
    """Flush the queue and fill it again; for a worker that starts alone.

    Returns:
        How many tasks were queued.
    """
    with log.transaction() as tx:
        flush(tx)
        _forget_other_clock(tx, time.time())
        work = open_work(tx)
        for item in work:
            tx.add_task(item.stage, item.key, item.due)
    return len(work)


def queue_lost(log: EventLog, running: Iterable[tuple[str, str]], now: float) -> list[Work]:
    """Queue what is due and neither queued nor running: rows that were lost on the way.

    Args:
        log: The log.
        running: Stage and key of what threads are at.
        now: Seconds since the epoch.

    Returns:
        What was queued.
    """
    busy = set(running)
    scheduled: dict[tuple[str, str], float] = {}
    with log.transaction() as tx:
        _forget_other_clock(tx, now)
        busy.update(_work_of(row["data"]) for row in tx.rows("SELECT data FROM task"))
        for row in tx.rows("SELECT data, timestamp FROM schedule ORDER BY timestamp DESC"):
            scheduled[_work_of(row["data"])] = row["timestamp"]
        lost = [
            item
            for item in open_work(tx)
            if (item.stage, item.key) not in busy and not _comes(item, scheduled, now)
        ]
        for item in lost:
            tx.add_task(item.stage, item.key, item.due if (item.due or 0) > now else None)
    return lost


def _comes(item: Work, scheduled: Mapping[tuple[str, str], float], now: float) -> bool:
    """Whether the schedule has the work, and not for later than it is due."""
    at = scheduled.get((item.stage, item.key))
    return at is not None and at <= max(item.due or 0.0, now) + CLOCK_SLACK_SECONDS


def _forget_other_clock(tx: Transaction, now: float) -> None:
    """Let what waits by a clock that was since set back wait no longer.

    Its next try lies as far ahead as the clock was ahead, days perhaps. That it failed later
    than now tells.
    """
    ahead = statedb.utc_now(now + CLOCK_SLACK_SECONDS)
    for table in ("hooks", "turns", "documents"):
        for row in tx.rows(
            f"SELECT stream, stage FROM {table} WHERE state = 'open' AND due > ? AND updated > ?"
            " AND COALESCE(error_class, '') <> 'budget'",
            (now, ahead),
        ):
            data = {"stage": row["stage"], "by": "clock"}
            tx.append(Event(row["stream"], EventType.REPLAYED, data))


def _work_of(data: bytes) -> tuple[str, str]:
    try:
        message = json.loads(data)
        return message["name"].removeprefix(statedb.TASK_PREFIX), message["args"][0]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return "", ""


def release_paused(log: EventLog, now: float) -> int:
    """Let go of turns that a spent budget held back; for when there is room again.

    The oldest few, and only when none is on its way: those that find the budget spent again
    pause again, and a thousand that wait must not fill the queue at each look.

    Args:
        log: The log.
        now: Seconds since the epoch.

    Returns:
        How many.
    """
    under_way = (
        "SELECT 1 FROM turns WHERE state = 'open' AND stage = 'summarize'"
        " AND COALESCE(error_class, '') <> 'budget' AND (due IS NULL OR due <= ?) LIMIT 1"
    )
    if log.row(under_way, (now,)) is not None:
        return 0
    with log.transaction() as tx:
        rows = tx.rows(
            "SELECT stream FROM turns WHERE state = 'open' AND stage = 'summarize'"
            " AND error_class = 'budget' ORDER BY at, position LIMIT ?",
            (RELEASED_AT_ONCE,),
        )
        for row in rows:
            data = {"stage": "summarize", "by": "budget"}
            tx.append(Event(row["stream"], EventType.REPLAYED, data))
            tx.add_task("summarize", row["stream"])
    return len(rows)


def spooled(home: Home) -> list[str]:
    """The files that wait in the spool, oldest first."""
    try:
        names = sorted(os.listdir(home.spool))
    except OSError:
        return []
    return [
        os.path.join(home.spool, name)
        for name in names
        if name.endswith(".json") and not name.startswith(".")
    ]


def sweep_spool(home: Home, log: EventLog) -> tuple[int, int]:
    """Take the spool's hooks into the log. Safe to kill: a hook taken in twice is one.

    Returns:
        How many were taken in, and how many were put aside since they are no hooks.

    Raises:
        MemsearchError: A file cannot be opened or taken away, or the log cannot be written;
            what was not taken in stays.
    """
    taken = bad = 0
    failed: MemsearchError | None = None
    _delete_torn(home)
    for path in spooled(home):
        try:
            with open(path, encoding="utf-8") as file:
                record = json.load(file)
            _check(record)
            with log.transaction() as tx:
                tx.insert_hook(record)
            os.unlink(path)
            taken += 1
        except FileNotFoundError:
            continue
        except OSError as error:
            # Nothing is said about the file: too many are open, or it is not ours.
            failed = MemsearchError(
                f"{path} cannot be taken out of the spool: {error.strerror}",
                kind=ErrorClass.PERMISSION,
                hint="check its owner and permissions",
            )
        except (ValueError, RecursionError):
            _put_aside(home, path)
            bad += 1
    if failed is not None:
        raise failed
    return taken, bad


def _put_aside(home: Home, path: str) -> None:
    """Move a file out of the spool that is no hook, without what it may hold of a conversation."""
    folder = os.path.join(home.spool, put_aside.BAD_FOLDER)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(path, "rb") as file:
            kept = without_message(file.read(MAX_BAD_BYTES))
        write_atomic(os.path.join(folder, os.path.basename(path)), kept)
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise MemsearchError(
            f"{path} is no hook and cannot be put aside: {error.strerror}",
            kind=ErrorClass.PERMISSION,
            hint="check the owner and permissions of spool/",
        ) from error


def without_message(data: bytes) -> bytes:
    """A file of the spool without the agent's words, whole or torn. Pure.

    The message comes behind the pointers, so that all from its name on goes.
    """
    text = data.decode("utf-8", "replace")
    head, found, _ = text.partition('"message"')
    return redact(head + (f'{found}: "[left out]' if found else "")).text.encode("utf-8")


def _delete_torn(home: Home) -> None:
    try:
        with os.scandir(home.spool) as found:
            torn = [
                entry.path
                for entry in found
                if entry.name.startswith(".")
                and entry.is_file(follow_symlinks=False)
                and time.time() - entry.stat(follow_symlinks=False).st_mtime > TORN_SECONDS
            ]
        for path in torn:
            os.unlink(path)
    except OSError:
        return  # nobody waits for them


def _check(record: object) -> None:
    if not isinstance(record, dict) or not isinstance(record.get("data"), dict):
        raise ValueError("not a hook's record")
    if not all(isinstance(record.get(key), str) and record[key] for key in ("id", "at")):
        raise ValueError("a hook's record has an id and a time")
    if not isinstance(record["data"].get("platform"), str):
        raise ValueError("a hook's record names its platform")
