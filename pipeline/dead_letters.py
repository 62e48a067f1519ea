"""Dead letters: what gave up, why, and sending it through again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from memsearch.config.errors import ErrorClass
from memsearch.pipeline.events import Event, EventType, session_key
from memsearch.pipeline.log import EventLog, Transaction

_TABLES = ("hooks", "turns", "documents")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A stream whose stage gave up.

    ``id`` is what a person types: the first digits of the giving-up event's id.
    """

    id: str
    stream: str
    stage: str
    at: str
    reason: str
    error: str
    attempts: int
    project: str
    day: str
    session: str
    seq: int

    def facts(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "seq"} | {
            "replay": f"memsearch dead-letter replay {self.id}"
        }


#: Digits of an event's id that stand for a dead letter.
ID_DIGITS = 10


def dead_letters(
    log: EventLog | Transaction,
    *,
    stage: str = "",
    since: str = "",
    before: str = "",
) -> list[DeadLetter]:
    """The dead letters, oldest first.

    Args:
        log: The log, or a transaction in it.
        stage: Only of this stage.
        since: Only those that gave up at this moment or later, UTC ISO 8601.
        before: Only those that gave up before this moment.
    """
    letters = []
    for table in _TABLES:
        for row in log.rows(
            f"SELECT t.*, e.id AS given_up FROM {table} AS t"
            " LEFT JOIN events AS e ON e.seq = t.seq WHERE t.state = 'dead'"
        ):
            if stage and row["stage"] != stage:
                continue
            if (since and row["updated"] < since) or (before and row["updated"] >= before):
                continue
            columns = row.keys()
            letters.append(
                DeadLetter(
                    id=(row["given_up"] or "")[:ID_DIGITS],
                    stream=row["stream"],
                    stage=row["stage"],
                    at=row["updated"],
                    reason=row["error_class"] or "",
                    error=row["error"] or "",
                    attempts=row["attempts"],
                    project=(row["project"] or "") if "project" in columns else "",
                    day=(row["day"] or "") if "day" in columns else "",
                    session=row["session"] if "session" in columns else "",
                    seq=row["seq"],
                )
            )
    return sorted(letters, key=lambda letter: letter.seq)


def matching(letters: Iterable[DeadLetter], name: str) -> list[DeadLetter]:
    """Those that a person means: by the beginning of the id, or by the whole stream."""
    return [
        letter
        for letter in letters
        if letter.stream == name or (len(name) >= 4 and letter.id.startswith(name[:ID_DIGITS]))
    ]


def attempts(log: EventLog, stream: str) -> list[dict[str, Any]]:
    """Every failed try of a stream since it was last sent through, with its error."""
    tries: list[dict[str, Any]] = []
    for row in log.rows(
        "SELECT e.*, p.body FROM events AS e LEFT JOIN payloads AS p ON p.event_id = e.id"
        " WHERE e.stream = ? AND e.type IN ('StageFailed', 'Replayed') ORDER BY e.seq",
        (stream,),
    ):
        data = json.loads(row["data"])
        tries.append(
            {
                "at": row["at"],
                "what": "failed" if row["type"] == "StageFailed" else "replayed",
                "stage": data.get("stage", ""),
                "attempt": data.get("attempt"),
                "reason": data.get("error_class", ""),
                "error": row["body"] or "",
            }
        )
    return tries


def replay(log: EventLog, letters: Iterable[DeadLetter], by: str) -> int:
    """Send dead letters through again, from the stage that gave up.

    Args:
        log: The log.
        letters: Which.
        by: ``hand`` or ``recovery``, for the log.

    Returns:
        How many there still were.
    """
    sent = 0
    for letter in letters:
        with log.transaction() as tx:
            row = _dead_row(tx, letter)
            if row is None:
                continue
            tx.append(Event(letter.stream, EventType.REPLAYED, {"stage": letter.stage, "by": by}))
            tx.add_task(letter.stage, _key(row))
            sent += 1
    return sent


def try_now(log: EventLog, classes: Iterable[ErrorClass], by: str, now: float) -> int:
    """Let go of what waits for a later try, for instance for a provider's limit to end.

    Args:
        log: The log.
        classes: Of the failures that are waited after.
        by: ``hand`` or ``configuration``, for the log.
        now: Seconds since the epoch.

    Returns:
        How many streams.
    """
    wanted = json.dumps([each.value for each in classes])
    released = 0
    for table in _TABLES:
        with log.transaction() as tx:
            rows = tx.rows(
                f"SELECT * FROM {table} WHERE state = 'open' AND due > ?"
                " AND error_class IN (SELECT value FROM json_each(?))",
                (now, wanted),
            )
            for row in rows:
                data = {"stage": row["stage"], "by": by}
                tx.append(Event(row["stream"], EventType.REPLAYED, data))
                tx.add_task(row["stage"], _key(row))
            released += len(rows)
    return released


def replay_captured(log: EventLog) -> int:
    """Send hooks through again whose turn was captured meanwhile; they come to their end.

    A transcript that was written late leaves a hook that gave up, and the session's next hook
    brings its turn along: nothing is wrong any more, and nobody has to be told.

    Returns:
        How many.
    """
    captured = []
    for letter in dead_letters(log, stage="capture"):
        row = log.row(
            "SELECT 1 FROM events AS e JOIN turns AS t ON t.stream = 'turn:'"
            " || json_extract(e.data, '$.platform') || ':' || json_extract(e.data, '$.turn')"
            " WHERE e.stream = ?1 AND e.type = 'HookReceived' AND NOT EXISTS (SELECT 1 FROM"
            " events WHERE stream = ?1 AND type = 'Replayed' AND json_extract(data, '$.by') ="
            " 'recovery')",
            (letter.stream,),
        )
        if row is not None:
            captured.append(letter)
    return replay(log, captured, "recovery")


def discard(log: EventLog, letters: Iterable[DeadLetter]) -> int:
    """Give dead letters up for good; what waited behind them goes on."""
    gone = 0
    for letter in letters:
        with log.transaction() as tx:
            row = _dead_row(tx, letter)
            if row is None:
                continue
            tx.append(Event(letter.stream, EventType.DISCARDED, {"stage": letter.stage}))
            if letter.session:
                tx.add_task("append", session_key(row["platform"], row["session"]))
            gone += 1
    return gone


def _dead_row(tx: Transaction, letter: DeadLetter) -> Any:
    table = {"hook": "hooks", "turn": "turns", "doc": "documents"}[letter.stream.split(":")[0]]
    return tx.row(f"SELECT * FROM {table} WHERE stream = ? AND state = 'dead'", (letter.stream,))


def _key(row: Any) -> str:
    if row["stage"] == "append":
        return session_key(row["platform"], row["session"])
    return str(row["collection" if row["stage"] in ("embed", "upsert") else "stream"])
