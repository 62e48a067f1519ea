"""Retention: the texts of finished work leave the log after a while; the facts stay."""

from __future__ import annotations

from memsearch.config import statedb
from memsearch.pipeline.log import EventLog

#: Texts that are dropped in one transaction, so that no hook waits for a large one.
BATCH = 500

#: Texts that nothing will read any more: of turns and hooks at their end since before a
#: moment, of failures of documents that are indexed, and of compactions that nobody went on
#: with. A dead letter keeps its text.
_DROPPABLE = """
    SELECT p.event_id FROM payloads AS p JOIN events AS e ON e.id = p.event_id
    LEFT JOIN turns AS t ON t.stream = e.stream
    LEFT JOIN hooks AS h ON h.stream = e.stream
    LEFT JOIN documents AS d ON d.stream = e.stream
    WHERE p.event_id > ?3 AND e.at < ?1 AND (
        (t.state NOT IN ('open', 'dead') AND t.updated < ?1)
        OR (h.state NOT IN ('open', 'dead') AND h.updated < ?1)
        OR (d.state NOT IN ('open', 'dead') AND d.updated < ?1)
        OR e.stream LIKE 'compact:%')
    ORDER BY p.event_id LIMIT ?2
"""


def drop_old_texts(log: EventLog, keep_days: float, now: float) -> int:
    """Drop the texts of what ended more than ``keep_days`` days ago.

    Safe to kill: it works in small transactions, each of which leaves a whole log.

    Args:
        log: The event log.
        keep_days: ``retry.keep_days``; 0 keeps everything.
        now: Seconds since the epoch.

    Returns:
        How many texts were dropped.
    """
    if keep_days <= 0:
        return 0
    before = statedb.utc_now(now - keep_days * 86_400)
    dropped = 0
    last = ""
    while True:
        # Looked for outside of a transaction: what has ended does not begin again, and a
        # look over a long log must not hold a hook up.
        ids = [row["event_id"] for row in log.rows(_DROPPABLE, (before, BATCH, last))]
        if ids:
            with log.transaction() as tx:
                for event_id in ids:
                    tx.drop_payload(event_id)
            last = ids[-1]
        dropped += len(ids)
        if len(ids) < BATCH:
            return dropped
