"""What this machine wrote itself, and what the user said is as good.

A cloned repository brings journals that somebody else wrote. Their notes are foreign: they are
searched and marked, and put before a model unasked only in a folder that the user trusts. A
note is ours when its anchor names a turn that this machine captured for that folder.

Part of the hook's path, so it stands on ``os`` and ``sqlite3`` alone.
"""

from __future__ import annotations

import os
import sqlite3

from memsearch.config.paths import Home, write_atomic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

#: One memory folder a line, absolute real paths, in the home's ``run/``.
TRUSTED_FILE = "trusted"
#: Turns that are asked for at once; SQLite takes no more than 32,766 values.
_BATCH = 500


def captured(
    db: sqlite3.Connection, memory_dir: str, turns: Iterable[str], collection: str = ""
) -> set[str]:
    """Those of some turns that this machine captured for a folder.

    Args:
        db: The home's database, open for reading.
        memory_dir: The folder of the journals, a real path.
        turns: Ids that anchors name.
        collection: The folder's collection, where that is known too: folders may share one,
            and a folder that was moved keeps it.
    """
    found: set[str] = set()
    wanted = sorted(set(turns) - {""})
    for start in range(0, len(wanted), _BATCH):
        part = wanted[start : start + _BATCH]
        rows = db.execute(
            # Open as well: an entry stands in its file a moment before the log says so.
            "SELECT turn FROM turns WHERE (memory_dir = ? OR (? <> '' AND collection = ?))"
            f" AND state IN ('open', 'done') AND turn IN ({', '.join('?' * len(part))})",
            (memory_dir, collection, collection, *part),
        )
        found.update(row[0] for row in rows.fetchall())
    return found


def is_foreign(turns: Collection[str], ours: Collection[str]) -> bool:
    """Whether a text was not written by this machine alone. Pure.

    Args:
        turns: The turns that its anchors name; without one it was written by hand.
        ours: Those that this machine captured.
    """
    return not turns or any(turn not in ours for turn in turns)


def trusted(home: Home) -> frozenset[str]:
    """The folders that the user said are trusted."""
    return folders(home, TRUSTED_FILE)


def set_trusted(home: Home, memory_dir: str, trust: bool) -> bool:
    """Trust a folder, or no longer.

    Returns:
        Whether that changed anything.

    Raises:
        OSError: The list cannot be written.
    """
    return put_folder(home, TRUSTED_FILE, memory_dir, trust)


def folders(home: Home, name: str) -> frozenset[str]:
    """The folders in one of the lists in ``run/``."""
    try:
        with open(os.path.join(home.run, name), encoding="utf-8", errors="surrogateescape") as file:
            return frozenset(line.rstrip("\n") for line in file if line.strip())
    except OSError:
        return frozenset()  # nobody yet


def put_folder(home: Home, name: str, folder: str, there: bool) -> bool:
    """Put a folder into a list, or take it out.

    Returns:
        Whether that changed anything.

    Raises:
        OSError: The list cannot be written.
    """
    known = set(folders(home, name))
    if (folder in known) == there or "\n" in folder:
        return False
    known.symmetric_difference_update({folder})
    os.makedirs(home.run, mode=0o700, exist_ok=True)
    body = "".join(f"{each}\n" for each in sorted(known))
    write_atomic(os.path.join(home.run, name), body.encode("utf-8", "surrogateescape"))
    return True
