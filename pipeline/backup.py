"""The last good copies of ``state.db``, and the way back to one.

The log is the truth of the work, so a damaged file is never replaced by an empty one: it is
put aside, and the newest sound copy takes its place. What was accepted after that copy was
made is found again in the agents' transcripts at their next hook; entries that are in the
journal already are known by their anchors and not written again.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from memsearch.config import statedb
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home, sync_folder

#: Copies that are kept; two, so that one made of a file that was already failing is not all.
KEEP = 2
#: Seconds between two copies of a log that changes.
EVERY_SECONDS = 1800.0
#: Events at the end of a damaged log that are looked through for hooks.
SALVAGE_EVENTS = 20_000
#: Seconds that the hooks' line is waited for, longer than a hook has a place in it.
LINE_SECONDS = 5.0
#: Pages that are copied between two looks whether the worker is to end.
PAGES_A_STEP = 1024
#: What SQLite says of a file that is broken, as opposed to one that it cannot get at.
_DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
#: Steps of SQLite's machine between two such looks while a copy is checked.
STEPS_A_LOOK = 100_000


def copies(home: Home) -> list[str]:
    """The copies, newest first."""
    return [path for path in _names(home) if os.path.exists(path)]


def _names(home: Home) -> list[str]:
    return [f"{home.state_db}.backup-{number}" for number in range(1, KEEP + 1)]


def is_due(home: Home, now: float) -> bool:
    """Whether the log has changed since its last copy, long enough ago."""
    try:
        made = os.stat(_names(home)[0]).st_mtime
    except OSError:
        return True
    if made > now + EVERY_SECONDS:
        return True  # the clock was set back since
    changed = max(_mtime(home.state_db), _mtime(home.state_db + "-wal"))
    return changed > made and now - made >= EVERY_SECONDS


def _mtime(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def back_up(home: Home, stop: threading.Event | None = None) -> str | None:
    """Copy the log while it is in use, check the copy, and keep it as the newest.

    Args:
        home: Whose log.
        stop: When it is set, the copy is given up.

    Returns:
        The copy's path; None when it was given up.

    Raises:
        MemsearchError: ``DAMAGED`` when the copy is not sound: then the log is not either.
    """
    names = _names(home)
    fresh = names[0] + ".new"

    def look(*_: int) -> None:
        if stop is not None and stop.is_set():
            raise _GivenUpError

    try:
        _unlink(fresh)  # of a worker that was killed meanwhile
        with (
            closing(sqlite3.connect(home.state_db, timeout=10, isolation_level=None)) as source,
            closing(sqlite3.connect(fresh)) as target,
        ):
            os.chmod(fresh, 0o600)
            # One state of it all: without a read transaction each write of somebody else
            # starts the copy over, and a busy log would be copied for ever.
            source.execute("BEGIN")
            source.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
            source.backup(target, pages=PAGES_A_STEP, progress=look)
            source.execute("COMMIT")
            # In memory: the journal of the next statement would hold what it takes out.
            target.execute("PRAGMA journal_mode = MEMORY").fetchone()
            _strip(target)
        check(fresh, stop)
        look()
    except _GivenUpError:
        _unlink(fresh)
        return None
    except sqlite3.Error as error:
        _unlink(fresh)
        from memsearch.pipeline.log import sqlite_error

        raise sqlite_error(error, home.state_db) from error
    except MemsearchError:
        _unlink(fresh)
        raise
    with open(fresh, "rb") as file:
        os.fsync(file.fileno())
    for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
        if os.path.exists(newer):
            os.replace(newer, older)
    os.replace(fresh, names[0])
    sync_folder(home.root)
    return names[0]


def _strip(db: sqlite3.Connection) -> None:
    """Take the messages out that nobody has redacted yet; the transcripts have them."""
    db.execute("PRAGMA secure_delete = ON").fetchone()
    with db:
        db.execute("DELETE FROM messages")


class _GivenUpError(Exception):
    """The worker ends."""


def check(path: str, stop: threading.Event | None = None) -> None:
    """Look through a database file.

    Args:
        path: The file.
        stop: When it is set, nothing is said about the file.

    Raises:
        MemsearchError: ``DAMAGED``, with what SQLite found.
    """
    try:
        with closing(sqlite3.connect(f"file:{_quoted(path)}?mode=ro", uri=True, timeout=10)) as db:
            if stop is not None:
                db.set_progress_handler(stop.is_set, STEPS_A_LOOK)
            found = db.execute("PRAGMA quick_check(1)").fetchone()
            if db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone() != (0,):
                db.execute("SELECT COUNT(*) FROM events").fetchone()
            # else a file without a table: a first hook was killed before it had written any
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorname", "") or ""
        if not code.startswith(_DAMAGE) and "no such table" not in str(error):
            return  # nothing is said about the file: it is busy, or cannot be read just now
        raise _damaged(path, str(error)) from error
    if found is not None and found[0] != "ok":
        raise _damaged(path, str(found[0]))


def _damaged(path: str, why: str) -> MemsearchError:
    return MemsearchError(f"{path} is damaged: {why}", kind=ErrorClass.DAMAGED)


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(path)


def restore(home: Home) -> tuple[str, str]:
    """Put the newest sound copy in the place of a damaged log; the caller holds the worker's lock.

    Returns:
        The copy that was used, and where the damaged file lies now.

    Raises:
        MemsearchError: ``DAMAGED`` when there is no sound copy; nothing was changed.
    """
    sound = next((path for path in copies(home) if _is_sound(path)), None)
    if sound is None:
        raise MemsearchError(
            f"{home.state_db} is damaged, and there is no sound copy of it",
            kind=ErrorClass.DAMAGED,
            hint="the journals are whole; move the file away to begin a new log",
        )
    aside = f"{home.state_db}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
    fresh = aside + ".new"
    with closing(sqlite3.connect(sound)) as source, closing(sqlite3.connect(fresh)) as target:
        source.backup(target)
        os.chmod(fresh, 0o600)
    with _hooks_held_back(home):
        # At no moment is there no file, which a hook would take for a new home. The WAL goes
        # first: replayed onto the copy it would damage that too.
        if not os.path.exists(aside):
            os.link(home.state_db, aside)
        for suffix in ("-wal", "-shm"):
            if os.path.exists(home.state_db + suffix):
                os.replace(home.state_db + suffix, aside + suffix)
        os.replace(fresh, home.state_db)
    sync_folder(home.root)
    return sound, aside


@contextmanager
def _hooks_held_back(home: Home) -> Iterator[None]:
    """Take the hooks' line, so that none opens the log between two of its files.

    A hook that was stopped in it is not waited for: what it commits to the old file it also
    spools, since it looks whether the file is still the one it opened.
    """
    fd = os.open(home.hooks_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + LINE_SECONDS
        while time.monotonic() < deadline:
            with suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.001)
        yield
    finally:
        os.close(fd)


def salvage(home: Home, aside: str) -> int:
    """Take the hooks out of a damaged log that came after the copy, as far as they can be read.

    Returns:
        How many were taken over.
    """
    hooks = list(_readable_hooks(aside))
    with closing(sqlite3.connect(home.state_db, timeout=10, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        before = db.execute("SELECT COUNT(*) FROM events").fetchone()[0]
        for record in hooks:
            statedb.insert_hook(db, record)
        after = db.execute("SELECT COUNT(*) FROM events").fetchone()[0]
        db.execute("COMMIT")
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(aside, timeout=1)) as db:
        # They are in the log by now. Where the damage forbids it they stay, in a file that
        # is kept for a human to look at.
        _strip(db)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return int(after - before)


def _readable_hooks(path: str) -> Iterator[dict[str, object]]:
    """Row by row, so that one broken page ends nothing but itself."""
    with closing(sqlite3.connect(path, timeout=1)) as db:
        try:
            last = db.execute("SELECT MAX(seq) FROM events").fetchone()[0] or 0
        except sqlite3.DatabaseError:
            return
        for seq in range(max(1, last - SALVAGE_EVENTS), last + 1):
            try:
                row = db.execute(
                    "SELECT e.id, e.at, e.data, m.body FROM events AS e"
                    " LEFT JOIN messages AS m ON m.event_id = e.id"
                    " WHERE e.seq = ? AND e.type = 'HookReceived'",
                    (seq,),
                ).fetchone()
                data = json.loads(row[2]) if row else None
            except (sqlite3.DatabaseError, ValueError):
                continue
            if row and isinstance(data, dict) and "platform" in data:
                yield {"id": row[0], "at": row[1], "data": data, "message": row[3]}


def _is_sound(path: str) -> bool:
    try:
        check(path)
    except MemsearchError:
        return False
    return True


def _unlink(path: str) -> None:
    for name in (path, path + "-journal", path + "-wal", path + "-shm"):
        if os.path.exists(name):
            os.unlink(name)
