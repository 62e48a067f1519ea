"""Which of a project's notes may be put before a model unasked, and who was told of the rest."""

from __future__ import annotations

import sqlite3

from memsearch.config.paths import Home
from memsearch.config.trust import captured, folders, is_foreign, put_folder, trusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from memsearch.hooks.journals import Recent

#: The folders whose foreign notes the user has been told of, one a line, in ``run/``.
TOLD_FILE = "told-of"


def may_inject(
    home: Home, memory_dir: str, db: sqlite3.Connection | None, entries: Sequence[Recent]
) -> list[Recent]:
    """Those of a folder's entries that may be injected: ours, or all of a trusted folder.

    Args:
        home: The home.
        memory_dir: The folder of the journals, a real path.
        db: The home's database, open for reading; None where there is none.
        entries: What stands in the journals.
    """
    if memory_dir in trusted(home):
        return list(entries)
    if db is None:
        return []
    ours = captured(db, memory_dir, (entry.turn for entry in entries))
    return [entry for entry in entries if not is_foreign([entry.turn] if entry.turn else [], ours)]


def held_back(home: Home, memory_dir: str, db: sqlite3.Connection | None) -> int:
    """How many of a folder's recent entries are not injected."""
    from memsearch.hooks import journals

    entries = journals.recent(memory_dir)
    return len(entries) - len(may_inject(home, memory_dir, db, entries))


def tell_once(home: Home, memory_dir: str) -> bool:
    """Whether the user is to be told now that notes are held back: once for a folder."""
    if memory_dir in folders(home, TOLD_FILE):
        return False
    try:
        return put_folder(home, TOLD_FILE, memory_dir, True)
    except OSError:
        return False  # a home that cannot be written would tell at every start
