"""A glance at a home: what a user should hear of at the start of a session. Reads only.

``memsearch status`` judges; this asks the three questions that a few milliseconds allow.
"""

from __future__ import annotations

import os
import sqlite3
import time

from memsearch.config import statedb
from memsearch.config.paths import Home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Milliseconds that a reader waits for a database that is just being recovered.
BUSY_MILLISECONDS = 100
#: Seconds that a dead letter counts as news (as in ``pipeline.status``).
NEWS_SECONDS = 24 * 3600.0


def open_log(home: Home) -> sqlite3.Connection | None:
    """The database for reading; None where nothing was captured yet or it cannot be read."""
    if not os.path.exists(home.state_db):
        return None
    # In a URI these three would mean something else.
    path = home.state_db.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
        db.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
        if statedb.user_version(db) == statedb.SCHEMA_VERSION:
            return db
        db.close()
    except sqlite3.Error:
        return None  # ``faults`` says so
    return None


def configuration(home: Home) -> tuple[dict[str, object], str]:
    """The user's settings as they stand in the file, and why they cannot be read.

    Only the syntax is looked at: what the keys mean is for commands that have the time.
    """
    try:
        with open(home.config_toml, "rb") as file:
            body = file.read()
    except FileNotFoundError:
        return {}, ""
    except OSError as error:
        return {}, f"{home.config_toml} cannot be read: {error.strerror}"
    import tomllib

    try:
        return tomllib.loads(body.decode("utf-8")), ""
    except ValueError as error:
        return {}, f"{home.config_toml} is no TOML: {error}"


def isolates_worktrees(settings: Mapping[str, object], environ: Mapping[str, str]) -> bool:
    """``project.isolate_worktrees``, which decides what a folder's project is."""
    value = environ.get("MEMSEARCH_PROJECT__ISOLATE_WORKTREES")
    if value is not None:
        return value.strip().lower() in ("true", "1", "yes", "on")
    project = settings.get("project")
    return isinstance(project, dict) and project.get("isolate_worktrees") is True


def waiting(db: sqlite3.Connection, memory_dir: str) -> int:
    """Turns of a project that are captured and not in its journal yet."""
    row = db.execute(
        "SELECT COUNT(*) FROM turns WHERE state = 'open' AND memory_dir = ?", (memory_dir,)
    ).fetchone()
    return int(row[0])


def faults(db: sqlite3.Connection | None, home: Home, broken: str) -> list[str]:
    """What the user should hear of, each with what to do next.

    Args:
        db: The database; None where there is none or it cannot be read.
        home: The home.
        broken: Why the configuration cannot be read, or empty.
    """
    found = []
    if broken:
        found.append(f"{broken}. Until it is mended nothing is captured; the turns wait.")
    if db is None:
        if os.path.exists(home.state_db):
            found.append(f"{home.state_db} cannot be read; memsearch doctor says why.")
        return found
    letters = dead_letters(db, time.time())
    if letters:
        turns = "1 turn was" if letters == 1 else f"{letters} turns or documents were"
        found.append(f"{turns} given up; memsearch dead-letter list says why.")
    paused = db.execute(
        "SELECT COUNT(*) FROM turns WHERE state = 'open' AND error_class = 'budget'"
    ).fetchone()[0]
    if paused:
        found.append(
            f"{paused} turns wait, since the day's tokens are spent"
            " (budget.daily_tokens); they go on at midnight."
        )
    return found


def dead_letters(db: sqlite3.Connection, now: float) -> int:
    """Dead letters of the last day that nobody has looked at."""
    row = db.execute(
        "SELECT value FROM kv WHERE queue = 'memsearch' AND key = 'dead_letters_seen'"
    ).fetchone()
    try:
        seen = float(row[0]) if row else 0.0
    except ValueError:
        seen = 0.0
    after = statedb.utc_now(max(seen, now - NEWS_SECONDS))
    total = 0
    for table in ("hooks", "turns", "documents"):
        total += db.execute(
            f"SELECT COUNT(*) FROM {table} WHERE state = 'dead' AND updated > ?", (after,)
        ).fetchone()[0]
    return total
