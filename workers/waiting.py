"""How far an index is that somebody waits for, and what came of it: a few looks at the log."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memsearch.pipeline import cost, renewal
from memsearch.pipeline.stages.documents import COST

if TYPE_CHECKING:
    from memsearch.pipeline.log import EventLog


def left(log: EventLog, collection: str) -> int:
    """Documents that are on their way now; one that waits for a later try is not."""
    soon = time.time() + 1.0
    documents = log.value(
        "SELECT COUNT(*) FROM documents WHERE collection = ? AND state = 'open'"
        f" AND (due IS NULL OR due <= ?) AND COALESCE(error_class, '') <> '{COST}'",
        (collection, soon),
    )
    # When all are in a new collection, it is not the one that answers yet.
    swaps = sum(
        name == collection and (due is None or due <= soon) for name, due in renewal.ready(log)
    )
    return int(documents) + swaps


def outcome(log: EventLog, answer: Mapping[str, Any]) -> dict[str, Any]:
    """What an index came to.

    Args:
        log: The event log.
        answer: Of ``index``: its ``collection`` and what was ``unreadable``.

    Returns:
        ``chunks``: how many are in the index; ``failed``: what is not, in words; ``waiting``:
        the estimate of what waits for somebody to agree, or None.
    """
    collection = answer["collection"]
    failed = answer["unreadable"] + [
        f"{row['source']}: {row['error']}"
        + ("" if row["state"] == "dead" else " (it is tried again)")
        for row in log.rows(
            "SELECT source, error, state FROM documents WHERE collection = ?"
            " AND (state = 'dead' OR (state = 'open' AND error IS NOT NULL))",
            (collection,),
        )
    ]
    chunks = log.value(
        "SELECT COALESCE(SUM(chunks), 0) FROM documents WHERE collection = ? AND state = 'done'",
        (collection,),
    )
    waiting = [each.as_dict() for each in cost.estimates(log) if each.collection == collection]
    renewed = log.row(
        "SELECT error FROM renewals WHERE collection = ? AND error IS NOT NULL", (collection,)
    )
    if renewed is not None:
        failed.append(f"{collection}: {renewed['error']} (it is tried again)")
    return {
        "chunks": int(chunks),
        "failed": failed,
        "waiting": waiting[0] if waiting else None,
    }
