"""What was damaged or no hook and was moved out of the way: named, kept for a while, deletable.

Such a file may hold what nothing has redacted: a damaged log out of which a hook's message
could not be taken, a torn file of the spool. So none is kept without end, and ``forget`` takes
them away.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home

#: In the name of a damaged file or folder that something took the place of.
MARK = ".damaged-"
#: A hook's file in the spool that cannot be read is put here, under ``spool/``.
BAD_FOLDER = "bad"
#: Endings of what belongs to a file of SQLite.
_PARTS = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Aside:
    """Something that was put aside: where it lies, and when that was (s since the epoch)."""

    path: str
    since: float


def damaged(home: Home) -> list[Aside]:
    """The damaged logs, indexes and caches, by name."""
    return _in(home.root, lambda name: MARK in name and not name.endswith((*_PARTS, ".new")))


def bad_spooled(home: Home) -> list[Aside]:
    """The spool's files that could not be read."""
    return _in(os.path.join(home.spool, BAD_FOLDER), lambda name: not name.startswith("."))


def everything(home: Home) -> list[Aside]:
    """Both."""
    return [*damaged(home), *bad_spooled(home)]


def _in(folder: str, wanted: Callable[[str], bool]) -> list[Aside]:
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if wanted(entry.name):
                    # When it was put aside changes the entry, not what is in it.
                    found.append(Aside(entry.path, entry.stat(follow_symlinks=False).st_ctime))
    except OSError:
        return []  # there is no such folder, or nothing of it can be told
    return sorted(found, key=lambda aside: aside.path)


def delete(path: str) -> None:
    """Delete something that was put aside, and what belongs to it. One that is gone is no error.

    Raises:
        MemsearchError: ``PERMISSION`` where it cannot be deleted.
    """
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        for name in (path, *(path + part for part in _PARTS)):
            if os.path.lexists(name):
                os.unlink(name)
    except FileNotFoundError:
        return  # somebody else has just deleted it
    except OSError as error:
        raise MemsearchError(
            f"{error.filename or path} cannot be deleted: {error.strerror}",
            kind=ErrorClass.PERMISSION,
            hint="delete it yourself",
        ) from error


def delete_old(home: Home, keep_days: float, now: float) -> int:
    """Delete what was put aside more than ``keep_days`` days ago.

    Args:
        home: Where.
        keep_days: ``retry.keep_days``; 0 keeps everything.
        now: Seconds since the epoch.

    Returns:
        How many were deleted.
    """
    if keep_days <= 0:
        return 0
    old = [aside for aside in everything(home) if now - aside.since > keep_days * 86_400]
    for aside in old:
        delete(aside.path)
    return len(old)
