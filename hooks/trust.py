"""Whether a project's notes may be put before a model unasked.

A cloned repository brings journals that somebody else wrote. They are searched like any
other Markdown; what is injected at a session's start are entries of turns that this machine
captured, and everything in a folder that the user trusts.
"""

from __future__ import annotations

import os
import sqlite3

from memsearch.config.paths import Home, write_atomic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from memsearch.hooks.journals import Recent

#: One memory folder a line, absolute real paths, in the home's ``run/``.
TRUSTED_FILE = "trusted"
#: The folders whose foreign notes the user has been told of, in the same form.
TOLD_FILE = "told-of"


def may_inject(
    home: Home, memory_dir: str, db: sqlite3.Connection | None, entries: Sequence[Recent]
) -> list[Recent]:
    """Those of a folder's entries that may be injected.

    Args:
        home: The home.
        memory_dir: The folder of the journals, a real path.
        db: The home's database, open for reading; None where there is none.
        entries: What stands in the journals.
    """
    if memory_dir in trusted(home):
        return list(entries)
    turns = sorted({entry.turn for entry in entries if entry.turn})
    if db is None or not turns:
        return []
    marks = ", ".join("?" * len(turns))
    ours = {
        row[0]
        for row in db.execute(
            # Open as well: an entry stands in its file a moment before the log says so.
            "SELECT turn FROM turns WHERE memory_dir = ? AND state IN ('open', 'done')"
            f" AND turn IN ({marks})",
            (memory_dir, *turns),
        ).fetchall()
    }
    return [entry for entry in entries if entry.turn in ours]


def trusted(home: Home) -> frozenset[str]:
    """The folders that the user said are trusted."""
    return _folders(home, TRUSTED_FILE)


def set_trusted(home: Home, memory_dir: str, trust: bool) -> bool:
    """Trust a folder, or no longer.

    Returns:
        Whether that changed anything.

    Raises:
        OSError: The list cannot be written.
    """
    return _put(home, TRUSTED_FILE, memory_dir, trust)


def tell_once(home: Home, memory_dir: str) -> bool:
    """Whether the user is to be told now that notes are held back: once for a folder."""
    try:
        return _put(home, TOLD_FILE, memory_dir, True)
    except OSError:
        return False  # a home that cannot be written would tell at every start


def _folders(home: Home, name: str) -> frozenset[str]:
    try:
        with open(os.path.join(home.run, name), encoding="utf-8", errors="surrogateescape") as file:
            return frozenset(line.rstrip("\n") for line in file if line.strip())
    except OSError:
        return frozenset()  # nobody yet


def _put(home: Home, name: str, folder: str, there: bool) -> bool:
    folders = set(_folders(home, name))
    if (folder in folders) == there or "\n" in folder:
        return False
    folders.symmetric_difference_update({folder})
    os.makedirs(home.run, mode=0o700, exist_ok=True)
    body = "".join(f"{each}\n" for each in sorted(folders))
    write_atomic(os.path.join(home.run, name), body.encode("utf-8", "surrogateescape"))
    return True
