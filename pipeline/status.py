"""Status: what works, what waits, what failed and why, judged by progress. Reads only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memsearch.config.errors import MemsearchError
from memsearch.config.paths import Home
from memsearch.config.settings import Settings
from memsearch.pipeline import cost, renewal
from memsearch.pipeline.budget import today
from memsearch.pipeline.log import EventLog
from memsearch.pipeline.pacing import MAX_EXTRA_SECONDS, SHORT_SECONDS
from memsearch.pipeline.stages.documents import COST, identity_of
from memsearch.sinks import embedders, lite_files
from memsearch.sinks.store import index_uri

#: Seconds that something due may go without progress, unless its stage has a deadline.
STUCK_SECONDS = 15 * 60.0
#: Bytes left on a disk below which a hook may find no room, beside what others write.
FULL_BYTES = 1_000_000
#: Seconds that a hook may lie in the spool beside a living worker, which looks all the time.
SPOOL_SECONDS = 60.0
#: Seconds that a worker has from its start until it must answer on its socket.
LISTEN_SECONDS = 60.0
#: Seconds that a dead letter counts as news.
NEWS_SECONDS = 24 * 3600.0
#: Seconds until another try from which on it is worth while to ask for it now, and how.
NOW_SECONDS = 120.0
TRY_NOW = "memsearch dead-letter replay --waiting"
#: Seconds that a moment of the log may lie ahead of the clock, which other processes read too.
AHEAD_SECONDS = 5.0
#: The key under which the time of the last look at the dead letters lies in Huey's ``kv``.
SEEN_KEY = "dead_letters_seen"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the log does not know and ``status`` needs.

    Attributes:
        worker_pid: The living worker, or None.
        listening: Whether it answers on its socket.
        spooled: Files that wait in the spool.
        bad_spooled: Files that were put aside since they cannot be read.
        problems: What of the configuration is not taken as it stands.
        passed_over: Agent → why its command line is not used for summaries.
        spooled_seconds: Age of the oldest file in the spool.
        worker_seconds: Since when the worker holds its lock.
        early_deaths: Starts in a row that did not reach their first refill.
        put_aside: Damaged files that were moved out of the way, and what replaced them works.
        watch: Why the worker's watching is slower than it should be, in words.
        unlockable: Why no worker can run here at all, in words.
        free_bytes: What is left on the disk of the home; None where that is not known.
    """

    worker_pid: int | None
    listening: bool
    spooled: int
    bad_spooled: int
    problems: tuple[str, ...]
    passed_over: Mapping[str, str] = field(default_factory=dict)
    spooled_seconds: float = 0.0
    worker_seconds: float = 0.0
    early_deaths: int = 0
    put_aside: tuple[str, ...] = ()
    watch: tuple[str, ...] = ()
    unlockable: str = ""
    free_bytes: int | None = None


def status(log: EventLog, settings: Settings, around: Surroundings, now: float) -> dict[str, Any]:
    """The whole of ``memsearch status --json``.

    Args:
        log: The event log.
        settings: The user's settings.
        around: What lies outside the log.
        now: Seconds since the epoch.

    Returns:
        ``state`` (``ok``, ``paused``, ``degraded``), ``reasons``, ``turns``,
        ``oldest_seconds``, ``last_success``, ``dead_letters``, ``usage``, ``budget``,
        ``documents``, ``workers``, and more.
    """
    waiting = _waiting(log, now)
    stuck = _stuck(log, settings, now)
    failing = _failing(log, now)
    news = unseen_dead_letters(log, now)
    costs = cost.estimates(log)
    identity, fault = _identity(settings, Home(os.path.dirname(log.path)))
    renewals = renewal.progress(log, identity) if identity else []
    budget = _budget(log, settings)
    compaction = _compaction(log, settings)
    reasons = [
        *stuck,
        *failing,
        *_compaction_fails(compaction),
        *([f"{news} dead letters: memsearch dead-letter list"] if news else []),
        *_held_by_rules(log),
        *_outside(around),
        *([f"embedding: {fault}"] if fault else []),
        *_index_damage(settings, Home(os.path.dirname(log.path))),
        *(
            f"the index of {each.collection} is not renewed: {each.error}"
            for each in renewals
            if each.error
        ),
    ]
    paused = budget["paused_turns"] or costs
    state = "degraded" if reasons else "paused" if paused else "ok"
    reasons += [
        f"embedding may cost money and waits: {each}; {cost.COMMAND} in the project starts it"
        for each in costs
    ]
    if budget["paused_turns"]:
        reasons.append(
            f"{budget['paused_turns']} turns wait: {budget['spent']} of {budget['daily_tokens']}"
            " tokens of today are spent (budget.daily_tokens); they go on at midnight, or when"
            " the cap is raised"
        )
    return {
        "state": state,
        "reasons": reasons,
        "turns": _by_state(log, "turns"),
        "hooks": _by_state(log, "hooks"),
        "waiting": waiting,
        "held": _held(log, now),
        "oldest_seconds": max((item["seconds"] for item in waiting), default=0),
        "last_success": {
            row["stage"]: row["succeeded"]
            for row in log.rows("SELECT stage, succeeded FROM progress ORDER BY stage")
        },
        "dead_letters": _dead_letters(log, news),
        "skipped": {
            row["reason"]: row["n"]
            for row in log.rows(
                "SELECT COALESCE(reason, '') AS reason, COUNT(*) AS n FROM turns"
                " WHERE state = 'skipped' GROUP BY reason"
            )
        },
        "usage": _usage(log),
        "budget": budget,
        "compact": compaction,
        "documents": _documents(log),
        "renewals": [each.as_dict(identity) for each in renewals],
        "costs": [each.as_dict() for each in costs],
        "spool": {"waiting": around.spooled, "bad": around.bad_spooled},
        "put_aside": list(around.put_aside),
        "configuration": list(around.problems),
        "summarizers_passed_over": dict(around.passed_over),
        "workers": {
            "pid": around.worker_pid,
            "listening": around.listening,
            "watch": list(around.watch),
        },
    }


def _index_damage(settings: Settings, home: Home) -> list[str]:
    """What is wrong with the files of the index, as far as that is seen without opening it."""
    damage = lite_files.fault(index_uri(settings.milvus, home, os.environ))
    return [f"the index is damaged: {damage}; memsearch index makes it anew"] if damage else []


def _identity(settings: Settings, home: Home) -> tuple[str, str]:
    """What the settings want an index to be of; or why that cannot be."""
    try:
        embedders.check_present(settings.embedding, home)
        return identity_of(embedders.identity(settings.embedding)), ""
    except MemsearchError as error:
        return "", str(error)


def _by_state(log: EventLog, table: str) -> dict[str, int]:
    return {
        row["state"]: row["n"]
        for row in log.rows(f"SELECT state, COUNT(*) AS n FROM {table} GROUP BY state")
    }


def _waiting(log: EventLog, now: float) -> list[dict[str, Any]]:
    """By stage: how much waits, since when, when it is tried again, and the last error."""
    waiting: list[dict[str, Any]] = []
    # A turn waits since it was captured: what a backfill brings in was said long before.
    captured = "COALESCE((SELECT e.at FROM events AS e WHERE e.id = turns.captured_id), at)"
    for table, since in (("hooks", "at"), ("turns", captured), ("documents", "changed_at")):
        for row in log.rows(
            f"SELECT stage, COUNT(*) AS n, MIN({since}) AS since, MIN(due) AS due,"
            f" SUM(due IS NULL) AS ready, MAX(error) AS error, MAX(error_class) AS kind"
            f" FROM {table} WHERE state = 'open' GROUP BY stage"
        ):
            waiting.append(
                {
                    "stage": row["stage"],
                    "count": row["n"],
                    "ready": row["ready"],
                    "seconds": max(0, int(now - epoch(row["since"]))),
                    "next_try_seconds": (
                        None if row["due"] is None else max(0, int(row["due"] - now))
                    ),
                    "why": row["kind"] if row["kind"] in ("budget", COST) else row["error"],
                }
            )
    return waiting


#: Of a turn ``t``: an earlier turn of its session is open, and holds it back.
_IS_HELD = (
    "EXISTS (SELECT 1 FROM turns AS e WHERE e.state = 'open' AND e.platform = t.platform"
    " AND e.session = t.session AND (e.at, e.position, e.stream) < (t.at, t.position, t.stream))"
)


def _held(log: EventLog, now: float) -> list[dict[str, Any]]:
    """Turns that are summarised and wait behind one of their session that is not."""
    held = []
    for row in log.rows(
        "SELECT platform, session, COUNT(*) AS n FROM turns AS t WHERE state = 'open'"
        f" AND stage = 'append' AND {_IS_HELD} GROUP BY platform, session"
    ):
        first = log.row(
            "SELECT * FROM turns WHERE state = 'open' AND platform = ? AND session = ?"
            " ORDER BY at, position, stream LIMIT 1",
            (row["platform"], row["session"]),
        )
        if first is None or first["stage"] == "append":
            continue
        held.append(
            {
                "count": row["n"],
                "session": row["session"],
                "behind": first["stream"],
                "stage": first["stage"],
                "next_try_seconds": (
                    None if first["due"] is None else max(0, int(first["due"] - now))
                ),
                "why": first["error_class"] if first["error_class"] == "budget" else first["error"],
            }
        )
    return held


def _stuck(log: EventLog, settings: Settings, now: float) -> list[str]:
    """What has been due for too long. ``updated`` is when the stream last moved."""
    # A turn may be put off for a pause that the provider asked for.
    put_off = max(SHORT_SECONDS, MAX_EXTRA_SECONDS)
    deadline = 2 * settings.summarize.timeout_seconds + put_off
    stuck = []
    for table, stage, limit in (
        ("hooks", "capture", STUCK_SECONDS),
        ("turns", "summarize", min(STUCK_SECONDS, deadline)),
        ("turns", "append", STUCK_SECONDS),
        ("documents", "chunk", STUCK_SECONDS),
        ("documents", "embed", STUCK_SECONDS),
        ("documents", "upsert", STUCK_SECONDS),
    ):
        # What waits behind another turn is not stuck; the other one may be.
        own = f" AND NOT {_IS_HELD}" if stage == "append" else ""
        rows = log.rows(
            f"SELECT updated, due FROM {table} AS t WHERE state = 'open' AND stage = ?"
            f" AND COALESCE(error_class, '') NOT IN ('budget', '{COST}')"
            f" AND (due IS NULL OR due <= ?){own}",
            (stage, now),
        )
        since = [max(epoch(row["updated"]), row["due"] or 0.0) for row in rows]
        late = [moment for moment in since if now - moment > limit]
        last = log.value(
            "SELECT MAX(COALESCE(succeeded, ''), COALESCE(failed, '')) FROM progress"
            " WHERE stage = ?",
            (stage,),
        )
        # A long queue that moves is slow, not stuck. What lies ahead of the clock, which was
        # set back, says nothing about now.
        if late and not (last and -AHEAD_SECONDS <= now - epoch(last) < limit):
            stuck.append(f"{stage}: {len(late)} due for {span(now - min(late))} without progress")
    return stuck


def _failing(log: EventLog, now: float) -> list[str]:
    """Stages whose last try failed while something still waits for another."""
    failing = []
    for row in log.rows("SELECT * FROM progress WHERE failed IS NOT NULL"):
        succeeded = row["succeeded"]
        if succeeded and succeeded >= row["failed"] and epoch(succeeded) <= now + AHEAD_SECONDS:
            continue
        table = {"capture": "hooks", "summarize": "turns", "append": "turns"}.get(
            row["stage"], "documents"
        )
        (retrying,) = log.rows(
            f"SELECT COUNT(*) AS n, MIN(due) AS due FROM {table}"
            " WHERE state = 'open' AND stage = ? AND attempts > 0"
            " AND COALESCE(error_class, '') NOT IN ('budget', 'not_yet', 'cost', 'rules')",
            (row["stage"],),
        )
        if retrying["n"]:
            left = (retrying["due"] or 0.0) - now
            when = f" in {span(left)}" if left >= 1 else ""
            if left >= NOW_SECONDS:
                when += f", or now by {TRY_NOW}"
            failing.append(
                f"{row['stage']} fails, {retrying['n']} to be tried again{when}: {row['error']}"
            )
    return failing


def _held_by_rules(log: EventLog) -> list[str]:
    """What waits until the configuration can be read; it says itself what is wrong there."""
    hooks, turns = (
        int(
            log.value(
                f"SELECT COUNT(*) FROM {table} WHERE state = 'open' AND error_class = 'rules'"
            )
        )
        for table in ("hooks", "turns")
    )
    if not hooks and not turns:
        return []
    return [
        f"{hooks} hooks and {turns} turns wait until the configuration is mended, since what you"
        " set on what is captured, redacted and sent cannot be read; nothing is lost"
    ]


def _outside(around: Surroundings) -> list[str]:
    reasons = [around.unlockable] if around.unlockable else []
    if around.free_bytes is not None and around.free_bytes < FULL_BYTES:
        reasons.append(
            f"the disk of MEMSEARCH_HOME is full ({around.free_bytes // 1024} KiB left): hooks"
            " cannot be stored; what they missed is captured at their session's next hook"
        )
    if around.bad_spooled:
        reasons.append(
            f"{around.bad_spooled} files in spool/bad are no hooks; memsearch forget --put-aside"
            " deletes them"
        )
    if around.spooled and around.worker_pid is None:
        reasons.append(
            f"{around.spooled} hooks wait in the spool and no worker runs: memsearch workers start"
        )
    elif around.spooled and around.spooled_seconds > SPOOL_SECONDS:
        reasons.append(
            f"{around.spooled} hooks have waited in the spool for {span(around.spooled_seconds)}"
            " though a worker runs: logs/worker.log says why"
        )
    if around.worker_pid is not None and not around.listening:
        if around.worker_seconds > LISTEN_SECONDS:
            reasons.append(
                "the worker does not answer on its socket: logs/worker.log says why;"
                " memsearch workers restart"
            )
    elif around.worker_pid is None and around.early_deaths > 1:
        reasons.append(
            f"the last {around.early_deaths} workers died as they began: logs/worker.log says"
            " why; memsearch workers start tries at once"
        )
    reasons.extend(f"configuration: {problem}" for problem in around.problems)
    return reasons


def unseen_dead_letters(log: EventLog, now: float) -> int:
    """Dead letters of the last day that nobody has looked at."""
    seen = log.value("SELECT value FROM kv WHERE queue = 'memsearch' AND key = ?", (SEEN_KEY,))
    looked = float(seen or 0)
    # A look ahead of the clock, which was set back, would hide what comes for as long.
    after = max(looked if looked <= now + AHEAD_SECONDS else 0.0, now - NEWS_SECONDS)
    return sum(
        1
        for table in ("hooks", "turns", "documents")
        for row in log.rows(f"SELECT updated FROM {table} WHERE state = 'dead'")
        if epoch(row["updated"]) > after
    )


def mark_dead_letters_seen(log: EventLog, now: float) -> None:
    """Somebody has looked at the dead letters."""
    with log.transaction() as tx:
        tx.execute(
            "INSERT OR REPLACE INTO kv(queue, key, value) VALUES ('memsearch', ?, ?)",
            (SEEN_KEY, str(now)),
        )


def _dead_letters(log: EventLog, news: int) -> dict[str, Any]:
    stages: dict[str, int] = {}
    for table in ("hooks", "turns", "documents"):
        for row in log.rows(
            f"SELECT stage, COUNT(*) AS n FROM {table} WHERE state = 'dead' GROUP BY stage"
        ):
            stages[row["stage"]] = stages.get(row["stage"], 0) + row["n"]
    return {"total": sum(stages.values()), "unseen": news, "by_stage": stages}


def _usage(log: EventLog) -> list[dict[str, Any]]:
    return [
        dict(row)
        for row in log.rows(
            "SELECT day, project, provider, calls, tokens_in, tokens_out, estimated FROM usage"
            " WHERE day = ? ORDER BY project, provider",
            (today(),),
        )
    ]


def _budget(log: EventLog, settings: Settings) -> dict[str, Any]:
    spent = log.value("SELECT SUM(tokens_in + tokens_out) FROM usage WHERE day = ?", (today(),))
    paused = log.value("SELECT COUNT(*) FROM turns WHERE state = 'open' AND error_class = 'budget'")
    return {
        "daily_tokens": settings.budget.daily_tokens,
        "spent": int(spent or 0),
        "paused_turns": int(paused or 0),
    }


@dataclass(frozen=True, slots=True)
class CompactionState:
    """How the scheduled compactions of a project went.

    Attributes:
        succeeded_at: When one ended well, UTC; empty for never.
        failures: How many have failed since, in a row.
        failed_at: When the last one failed.
        error: Why.
    """

    succeeded_at: str = ""
    failures: int = 0
    failed_at: str = ""
    error: str = ""


def failed_compactions(log: EventLog, collection: str) -> CompactionState:
    """How the scheduled compactions of a project went lately."""
    state = CompactionState()
    for row in log.rows(
        "SELECT e.type, e.at, p.body FROM events AS e LEFT JOIN payloads AS p ON p.event_id = e.id"
        " WHERE e.stream = ? AND e.type IN ('Compacted', 'CompactFailed')"
        " AND json_extract(e.data, '$.cause') = 'schedule' ORDER BY e.seq",
        (f"compact:{collection}",),
    ):
        if row["type"] == "Compacted":
            state = CompactionState(succeeded_at=row["at"])
        else:
            state = CompactionState(
                state.succeeded_at, state.failures + 1, row["at"], row["body"] or ""
            )
    return state


def _compaction(log: EventLog, settings: Settings) -> dict[str, Any]:
    projects = []
    for row in log.rows("SELECT root, collection FROM projects ORDER BY root"):
        state = failed_compactions(log, row["collection"])
        if state != CompactionState():
            projects.append(
                {
                    "project": row["root"],
                    "last_success": state.succeeded_at or None,
                    "failures": state.failures,
                    "failed_at": state.failed_at or None,
                    "error": state.error or None,
                }
            )
    return {"schedule": settings.compact.schedule, "projects": projects}


def _compaction_fails(compaction: Mapping[str, Any]) -> list[str]:
    if compaction["schedule"] == "off":
        return []
    return [
        f"compact.schedule: {item['failures']} runs in a row failed for {item['project']}, the"
        f" journals are where they were: {item['error']}"
        for item in compaction["projects"]
        if item["failures"]
    ]


def _documents(log: EventLog) -> list[dict[str, Any]]:
    return [
        {
            "project": row["project"],
            "collection": row["collection"],
            "documents": row["n"],
            "chunks": row["chunks"] or 0,
            "not_indexed": row["open"],
            "dead": row["dead"],
            "behind_since": row["behind"],
        }
        for row in log.rows(
            "SELECT MAX(project) AS project, collection, COUNT(*) AS n, SUM(chunks) AS chunks,"
            " SUM(state = 'open') AS open, SUM(state = 'dead') AS dead,"
            " MIN(CASE WHEN state = 'open' THEN changed_at END) AS behind"
            " FROM documents WHERE state <> 'removed' GROUP BY collection ORDER BY project"
        )
    ]


def epoch(at: str) -> float:
    """A moment of the log in seconds since the epoch; 0 for what is none."""
    try:
        return datetime.fromisoformat(at).timestamp()
    except (ValueError, TypeError):
        return 0.0


def span(seconds: float) -> str:
    """A time in words, by its size: seconds, minutes or hours."""
    if seconds < 120:
        return f"{int(seconds)} s"
    if seconds < 7200:
        return f"{int(seconds / 60)} min"
    return f"{int(seconds / 3600)} h"
