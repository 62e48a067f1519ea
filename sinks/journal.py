"""Appending to journals, so that nothing is lost, doubled or touched that a human wrote.

An append holds a lock against other writers of ours, looks whether the turn is there
already, writes everything in one ``write`` to a file opened for appending, syncs it, and
looks whether that file is still the one at the path. Editors know nothing of the lock: one
that saves by renaming a new file over the old one may take the entry away with the old file,
so the append starts over until its entry is in the file that has the name.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from memsearch.config.errors import ErrorClass, MemsearchError, passes
from memsearch.config.paths import sync_folder
from memsearch.sinks.anchors import encode_value
from memsearch.sinks.journal_format import (
    JournalEntry,
    appended_text,
    clean_bullet,
    entry_lines,
    is_anchor_line,
    journal_day,
    journal_name,
    parse,
)
from memsearch.sinks.types import Entry

__all__ = [
    "Appended",
    "JournalEntry",
    "append",
    "contains",
    "journal_day",
    "journal_lock",
    "journal_name",
    "parse",
]

#: Seconds to wait for another writer's append, which takes milliseconds.
LOCK_TIMEOUT = 30.0
#: Seconds between two looks at a lock that is held.
LOCK_POLL = 0.005
#: How often an append starts over because the file was replaced beneath it. An editor saves
#: once; a program that replaces the file hundreds of times a second is met by luck.
MAX_REPLACED = 50
#: Mode of a new journal, before the umask: it is the project's file, like its sources.
FILE_MODE = 0o666

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})

# O_NONBLOCK so that a pipe with a journal's name cannot hold the worker for ever.
_FLAGS = (
    os.O_RDWR
    | os.O_APPEND
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


@dataclass(frozen=True, slots=True)
class Appended:
    """Where the entry is, and whether this call put it there.

    ``path`` is the file that holds it: the day's file, or another file of that day (a suffix,
    a conflict copy, the archive) where it was found.
    """

    path: str
    written: bool


def append(
    memory_dir: str,
    entry: Entry,
    *,
    lock_dir: str,
    suffix: str = "",
    archive_dir: str | None = None,
) -> Appended:
    """Write an entry at the end of its day's journal, unless it is there already.

    An entry that a killed or failed write left incomplete at the end of the file is
    completed. The lock is held by the operating system: a killed writer lets go of it.

    Args:
        memory_dir: Folder of the journals; made if it is missing.
        entry: One turn, with at least one bullet.
        lock_dir: Folder for the lock file, outside the project (``Home.run``); made if it is
            missing. All writers of one machine must name the same.
        suffix: Writer's suffix in the file's name.
        archive_dir: Folder where compaction moved older journals, if there is one.

    Raises:
        MemsearchError: ``DISK_FULL``, ``PERMISSION``, ``BUSY`` (lock not free within
            ``LOCK_TIMEOUT``), ``BAD_FILE`` (no regular file, a link out of the folder),
            ``CONFIG`` (a suffix that the locale cannot write), ``BAD_ANSWER`` (no bullets).
            Nothing of the entry is in the file then, unless the write came through and only
            its sync failed; calling again is safe in each case.
    """
    if not any(clean_bullet(text) for text in entry.bullets):
        raise MemsearchError(
            f"the entry of turn {entry.turn} has no bullets", kind=ErrorClass.BAD_ANSWER
        )
    path = Path(memory_dir) / journal_name(entry.day, suffix)
    with _errors(str(path)), journal_lock(memory_dir, lock_dir):
        _make_folder(Path(memory_dir))
        _refuse_link_out(path)
        written = False
        for _ in range(MAX_REPLACED):
            elsewhere = _find(memory_dir, archive_dir, entry.day, entry.session, entry.turn, path)
            if elsewhere is not None:
                return Appended(str(elsewhere), written)
            wrote, stayed = _append_once(path, entry)
            written = written or wrote
            if stayed:
                return Appended(str(path), written)
    raise MemsearchError(
        f"{path} was replaced by another program {MAX_REPLACED} times during one append",
        kind=ErrorClass.BUSY,
        hint="the entry is tried again later",
    )


def contains(
    memory_dir: str, day: date, session: str, turn: str, *, archive_dir: str | None = None
) -> bool:
    """Is the turn's entry, whole or edited, in any file of its day?

    Args:
        memory_dir: Folder of the journals; a missing one holds nothing.
        day: Local day of the turn.
        session: As its anchor names it.
        turn: As its anchor names it.
        archive_dir: Folder of archived journals, looked at too.

    Raises:
        MemsearchError: ``PERMISSION`` or ``BAD_FILE`` when a file cannot be read.
    """
    with _errors(memory_dir):
        return _find(memory_dir, archive_dir, day, session, turn, None) is not None


@contextmanager
def journal_lock(memory_dir: str, lock_dir: str) -> Iterator[None]:
    """Hold a memory folder against other writers of ours on this machine.

    Whoever moves journals (compaction) or rewrites them (forget) takes it too.

    Args:
        memory_dir: Folder of the journals; the lock is named after its real path.
        lock_dir: Folder for the lock file; made if it is missing.

    Raises:
        MemsearchError: ``BUSY`` when it is not free within ``LOCK_TIMEOUT`` seconds.
    """
    from filelock import FileLock, Timeout  # 40 ms that reading a journal need not pay

    real = os.fsencode(Path(memory_dir).resolve())
    folder = Path(lock_dir)
    with _errors(str(folder)):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"journal-{hashlib.sha256(real).hexdigest()[:16]}.lock"
    lock = FileLock(folder / name, mode=0o600)
    with _errors(lock.lock_file):
        try:
            lock.acquire(timeout=LOCK_TIMEOUT, poll_interval=LOCK_POLL)
        except Timeout as exc:
            raise MemsearchError(
                f"{memory_dir} is held by another writer for {LOCK_TIMEOUT:.0f} s",
                kind=ErrorClass.BUSY,
                hint=f"look who holds {lock.lock_file}",
            ) from exc
    try:
        yield
    finally:
        lock.release()


def _append_once(path: Path, entry: Entry) -> tuple[bool, bool]:
    """One try: (something was written, the file that has it still has the name)."""
    descriptor, new = _open(path)
    try:
        data = _read_all(descriptor)
        missing = _missing(data, entry)
        if missing:
            try:
                _write(descriptor, missing, path)
            except BaseException:
                if new and os.fstat(descriptor).st_size == 0:
                    path.unlink(missing_ok=True)  # no empty journals
                raise
            os.fsync(descriptor)
            if new and os.name != "nt":
                sync_folder(str(path.parent))
        return bool(missing), _is_at(descriptor, path)
    finally:
        os.close(descriptor)


def _open(path: Path) -> tuple[int, bool]:
    """A descriptor of the journal, and whether it is new."""
    while True:
        try:
            descriptor = os.open(path, _FLAGS)
        except FileNotFoundError:
            with suppress(FileExistsError):  # somebody made it meanwhile: open that one
                return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, FILE_MODE), True
            if path.is_symlink():
                raise
            continue
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise _not_a_file(path)
        return descriptor, False


def _read_all(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    parts: list[bytes] = []
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _missing(data: bytes, entry: Entry) -> bytes:
    """The bytes that the file still lacks of the entry; none when it holds the turn."""
    lines = entry_lines(entry).encode()
    # A write that was cut short, by a full disk or a power cut, is the beginning of these
    # very lines at the end of the file.
    heading = lines[: lines.index(b"\n") + 1]
    start = data.rfind(heading)
    if start == 0 or (start > 0 and data[start - 1 : start] == b"\n"):
        tail = data[start:]
        if len(tail) < len(lines) and lines.startswith(tail):
            rest = lines[len(tail) :]
            return rest if rest.strip() else b""
    if _holds(data, entry.session, entry.turn) and not _buried(data, entry):
        return b""
    return appended_text(data.decode("utf-8", "replace"), entry).encode()


def _holds(data: bytes, session: str, turn: str) -> bool:
    """Does the file hold the turn's anchor?"""
    # The turn's id is searched as bytes first: nearly every append ends here, and parsing a
    # whole day for each would be quadratic over the day.
    for name in {turn.encode("utf-8", "replace"), encode_value(turn).encode()}:
        position = data.find(name) if name else -1
        while position >= 0:
            start = data.rfind(b"\n", 0, position) + 1
            end = data.find(b"\n", position)
            line = data[start : end if end >= 0 else len(data)]
            if is_anchor_line(line.decode("utf-8", "replace"), session, turn):
                return True
            position = data.find(name, start + len(line))
    return False


def _buried(data: bytes, entry: Entry) -> bool:
    """Is all that the file holds of the turn a torn write with other entries after it?

    Only a bullet that ends in the middle of ours proves that; fewer bullets, or other ones,
    are a human's edit.
    """
    wanted = tuple(bullet for text in entry.bullets if (bullet := clean_bullet(text)))
    copies = [
        found.bullets
        for found in parse(data.decode("utf-8", "replace"))
        if found.anchor and (found.anchor.session, found.anchor.turn) == (entry.session, entry.turn)
    ]
    return bool(copies) and all(_is_torn(bullets, wanted) for bullets in copies)


def _is_torn(bullets: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    if not bullets or len(bullets) > len(wanted):
        return False
    last = len(bullets) - 1
    torn = bullets[last].rstrip("\ufffd")  # a character of several bytes may be cut too
    return (
        bullets[:last] == wanted[:last]
        and torn != wanted[last]
        and wanted[last].startswith(torn)
        and bullets[last] != wanted[last]
    )


def _write(descriptor: int, data: bytes, path: Path) -> None:
    """All of it in one write, or nothing."""
    count = os.write(descriptor, data)
    if count == len(data):
        return
    end = os.lseek(descriptor, 0, os.SEEK_CUR)
    # Cut only what this write added, and only while nobody has written behind it.
    if os.fstat(descriptor).st_size == end:
        os.ftruncate(descriptor, end - count)
    raise MemsearchError(
        f"no space left for the entry in {path}", kind=ErrorClass.DISK_FULL, hint="free some space"
    )


def _is_at(descriptor: int, path: Path) -> bool:
    """Is the open file still the one that has the name?"""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def _find(
    memory_dir: str,
    archive_dir: str | None,
    day: date,
    session: str,
    turn: str,
    but: Path | None,
) -> Path | None:
    """A file of the day, other than ``but``, that holds the turn."""
    for folder in (memory_dir, archive_dir):
        if not folder:
            continue
        try:
            names = sorted(os.listdir(folder))
        except FileNotFoundError:
            continue
        for name in names:
            path = Path(folder) / name
            if name.startswith(day.isoformat()) and journal_day(name) == day and path != but:
                try:
                    data = path.read_bytes() if path.is_file() else b""
                except FileNotFoundError:  # moved or renamed since the listing
                    continue
                if _holds(data, session, turn):
                    return path
    return None


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    folder.mkdir(parents=True, exist_ok=True)
    if os.name != "nt":
        for made in missing:
            sync_folder(str(made.parent))


def _refuse_link_out(path: Path) -> None:
    """A cloned repository must not make us append to a file outside its memory."""
    if path.is_symlink() and path.resolve().parent != path.parent.resolve():
        raise MemsearchError(
            f"{path} is a link out of its folder, to {path.resolve()}",
            kind=ErrorClass.BAD_FILE,
            hint="replace the link by a file, or link the whole folder",
        )


def _not_a_file(path: Path) -> MemsearchError:
    return MemsearchError(
        f"{path} is not a regular file", kind=ErrorClass.BAD_FILE, hint="move it away"
    )


@contextmanager
def _errors(path: str) -> Iterator[None]:
    """Turn the operating system's errors into ours."""
    try:
        yield
    except OSError as exc:
        raise error_of(exc, path) from exc
    except UnicodeEncodeError as exc:  # a Chinese suffix in a C locale
        raise MemsearchError(
            f"{path!a} cannot be named in this locale",
            kind=ErrorClass.CONFIG,
            hint="set LC_ALL to a UTF-8 locale, for instance C.UTF-8",
        ) from exc


def error_of(exc: OSError, path: str) -> MemsearchError:
    """An error of the operating system as ours, with what to do.

    Args:
        exc: What was raised.
        path: What it was about, where the error does not name a file itself.
    """
    name = os.fsdecode(exc.filename) if isinstance(exc.filename, str | bytes) else path
    message = f"{name}: {exc.strerror or exc}"
    if exc.errno in _FULL:
        return MemsearchError(message, kind=ErrorClass.DISK_FULL, hint="free some space")
    if exc.errno in _DENIED:
        return MemsearchError(
            message, kind=ErrorClass.PERMISSION, hint="allow writing there, or set MEMSEARCH_DIR"
        )
    if passes(exc):
        return MemsearchError(
            message, kind=ErrorClass.BUSY, hint="check the disk, or what its folder is mounted from"
        )
    return MemsearchError(message, kind=ErrorClass.BAD_FILE)
