"""Whether a project's journals may be put before a model unasked.

A cloned repository brings journals that somebody else wrote. They are searched like any
other Markdown; what is injected at a session's start was written by this machine, or by
somebody whom the user trusts.
"""

from __future__ import annotations

import os
import sqlite3

from memsearch.config.paths import Home

#: One memory folder a line, absolute real paths, in the home's ``run/``.
TRUSTED_FILE = "trusted"


def may_inject(home: Home, memory_dir: str, db: sqlite3.Connection | None) -> bool:
    """Whether the journals of a folder may be injected.

    Args:
        home: The home.
        memory_dir: The folder of the journals, a real path.
        db: The home's database, open for reading; None where there is none.
    """
    if memory_dir in trusted(home):
        return True
    if db is None:
        return False
    return (
        db.execute(
            "SELECT 1 FROM turns WHERE memory_dir = ? AND state = 'done' LIMIT 1", (memory_dir,)
        ).fetchone()
        is not None
    )


def trusted(home: Home) -> frozenset[str]:
    """The folders that the user said are trusted."""
    try:
        with open(os.path.join(home.run, TRUSTED_FILE), encoding="utf-8", errors="replace") as file:
            return frozenset(line.strip() for line in file if line.strip())
    except OSError:
        return frozenset()  # nobody was trusted yet
