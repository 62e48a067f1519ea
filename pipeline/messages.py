"""The agents' last messages as hooks brought them: redacted at the first look, then wiped.

A hook has no time to redact, so its message comes in as it is. It lies in a table of its own,
since a page that many texts share keeps torn copies of them when it is split: an emptied
table gives all its pages back, and ``secure_delete`` overwrites those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memsearch.config import statedb
from memsearch.config.errors import MemsearchError
from memsearch.pipeline.redact import RedactSettings, reading, redact, redact_text
from memsearch.sources.base import MAX_TEXT_CHARS
from memsearch.sources.bounds import beginning
from memsearch.sources.cleaning import clean

if TYPE_CHECKING:
    from memsearch.pipeline.log import EventLog


def take(log: EventLog, hook: str, settings: RedactSettings | None) -> str | None:
    """A hook's message, redacted; the one that the hook brought is taken out of the log.

    Args:
        log: The event log.
        hook: The id of the hook's event.
        settings: ``settings.redact``; None while that cannot be read: the built-in rules alone.

    Returns:
        The message without secrets and private parts; None where there is none.

    Raises:
        MemsearchError: ``CONFIG`` when the user's patterns cannot be used. The message is
            gone then: the transcript has it, and nothing unredacted stays behind.
    """
    raw = log.value("SELECT body FROM messages WHERE event_id = ?", (hook,))
    if raw is None:
        kept = log.payload(hook)
        # It may have been taken while the user's own patterns could not be read.
        return redact_text(kept, settings) if kept and settings else kept
    try:
        kept = _kept(str(raw), settings)
    except MemsearchError:
        _replace(log, hook, "")
        raise
    _replace(log, hook, kept)
    return kept or None


def _kept(raw: str, settings: RedactSettings | None) -> str:
    """A message as a turn may hold it. The hook's own cut may have torn a secret."""
    with reading(settings):
        kept = beginning(clean(raw), MAX_TEXT_CHARS)
        return redact_text(kept, settings) if settings else redact(kept).text


def _replace(log: EventLog, hook: str, kept: str) -> None:
    with log.transaction() as tx:
        tx.execute("DELETE FROM messages WHERE event_id = ?", (hook,))
        if kept:
            tx.execute(statedb.INSERT_PAYLOAD, (hook, kept))
    log.unwiped.set()


def wipe(log: EventLog) -> bool:
    """Overwrite what is left of taken messages in free pages and in the WAL.

    Waits for nobody: while a message waits or somebody reads the log, it is for a later call.

    Returns:
        Whether nothing is left.
    """
    log.unwiped.clear()
    with log.transaction() as tx:
        empty = tx.row("SELECT 1 FROM messages LIMIT 1") is None
        if empty:
            # Without a condition: SQLite clears the table's pages, emptied ones too.
            tx.execute("DELETE FROM messages")
    done = log.checkpoint() and empty
    if not done:
        log.unwiped.set()
    return done
