"""Changes to files of others: planned, shown, made whole or not at all, and undone.

Each file has a pair of pure functions, one that puts our part into its bytes and one that
takes it out. What a file was before, and what we made of it, is kept in a record under
MEMSEARCH_HOME. A file that is still as we left it is put back byte for byte; one that its
user or its agent has changed since loses our part alone.
"""

from __future__ import annotations

import base64
import difflib
import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home, tilde, write_atomic

#: Largest file of others that is edited, in bytes.
MAX_BYTES = 32 * 1024 * 1024
#: Version of a record's form.
RECORD_VERSION = 1


@dataclass(frozen=True, slots=True)
class Edit:
    """Our part of one file.

    Attributes:
        path: The file.
        add: Its bytes without our part (None: no file) → with it.
        remove: Its bytes with our part, perhaps changed since → without it; None when
            nothing is left and the file goes. Bytes without our part come back as they are.
        mode: Of a new file.
    """

    path: str
    add: Callable[[bytes | None], bytes]
    remove: Callable[[bytes], bytes | None]
    mode: int = 0o600


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one file; ``before`` and ``after`` are None where there is no file."""

    path: str
    before: bytes | None
    after: bytes | None
    #: What it was, or would have been, without us.
    base: bytes | None = None
    mode: int = 0o600

    @property
    def needed(self) -> bool:
        """Whether anything changes."""
        return self.before != self.after


@dataclass(slots=True)
class Record:
    """What was done to the files of one agent.

    Attributes:
        files: Path → the bytes before (None: no file) and the SHA-256 of ours.
        folders: The folders that were made, outermost first.
    """

    files: dict[str, tuple[bytes | None, str]] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)


def whole_file(path: str, content: bytes, mode: int = 0o644) -> Edit:
    """The edit of a file that is ours from end to end."""
    return Edit(path, lambda _old: content, lambda now: None if now == content else now, mode)


def plan_install(edits: Iterable[Edit], record: Record) -> list[Change]:
    """What an installation changes. Twice is once.

    Raises:
        MemsearchError: ``BAD_FILE`` or ``PERMISSION``, naming the file.
    """
    changes = []
    for edit in edits:
        now = read(edit.path)
        with _named(edit.path):
            base = _without(edit, now, record)
            after = edit.add(base)
        changes.append(Change(edit.path, now, after, base, edit.mode))
    return changes


def plan_removal(edits: Iterable[Edit], record: Record) -> list[Change]:
    """What taking us out changes.

    Raises:
        MemsearchError: As ``plan_install``.
    """
    by_path = {edit.path: edit for edit in edits}
    changes = []
    for path in {**by_path, **record.files}:
        now = read(path)
        edit = by_path.get(path)
        after = now
        if edit is not None:
            with _named(path):
                after = _without(edit, now, record)
        elif now is not None and digest(now) == record.files[path][1]:
            after = record.files[path][0]
        changes.append(Change(path, now, after))
    return changes


def _without(edit: Edit, now: bytes | None, record: Record) -> bytes | None:
    """A file's bytes without our part."""
    before, ours = record.files.get(edit.path, (None, ""))
    if now is None:
        return None
    if digest(now) == ours:
        return before
    return edit.remove(now)


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Add the file's name to what is wrong in it."""
    try:
        yield
    except MemsearchError as error:
        raise MemsearchError(
            f"{tilde(path)} cannot be changed: {error.message}",
            kind=error.kind,
            hint=error.hint or "mend it and try again; nothing was changed",
        ) from error
    except UnicodeDecodeError as error:
        raise MemsearchError(
            f"{tilde(path)} is not UTF-8: {error.reason}",
            kind=ErrorClass.BAD_FILE,
            hint="mend it and try again; nothing was changed",
        ) from error


def read(path: str) -> bytes | None:
    """A file's bytes; None when it is not there.

    Raises:
        MemsearchError: ``PERMISSION`` or ``BAD_FILE``.
    """
    try:
        if os.path.getsize(path) > MAX_BYTES:
            raise MemsearchError(f"{tilde(path)} is too large", kind=ErrorClass.BAD_FILE)
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MemsearchError(
            f"{tilde(path)} cannot be read: {error.strerror}", kind=ErrorClass.PERMISSION
        ) from error


def digest(data: bytes) -> str:
    """SHA-256, in hex."""
    return hashlib.sha256(data).hexdigest()


def install(changes: Sequence[Change], record_path: str, record: Record) -> None:
    """Make the changes of an installation, and the record first: an interrupted one is undone
    from it, or made good by doing it again.

    Raises:
        MemsearchError: ``PERMISSION`` or ``DISK_FULL``; the file that failed is as it was.
    """
    for change in changes:
        assert change.after is not None
        record.files[change.path] = (change.base, digest(change.after))
        for folder in _missing(os.path.dirname(change.path)):
            if folder not in record.folders:
                record.folders.append(folder)
    with _writing(record_path):
        os.makedirs(os.path.dirname(record_path), mode=0o700, exist_ok=True)
        write_atomic(record_path, dump(record))
    _apply(changes)


def remove(changes: Sequence[Change], record_path: str, record: Record) -> None:
    """Make the changes of a removal, then let the record go, and what was made and is empty.

    Raises:
        MemsearchError: As ``install``.
    """
    _apply(changes)
    if os.path.exists(record_path):
        with _writing(record_path):
            os.unlink(record_path)  # it may lie in one of the folders that go
    for folder in reversed(record.folders):
        try:
            os.rmdir(folder)
        except OSError:
            continue  # somebody else keeps files there by now


def _apply(changes: Iterable[Change]) -> None:
    for change in changes:
        if not change.needed:
            continue
        with _writing(change.path):
            if change.after is None:
                os.unlink(change.path)
                continue
            os.makedirs(os.path.dirname(change.path), exist_ok=True)
            mode = change.mode
            if change.before is not None:
                mode = os.stat(change.path).st_mode & 0o7777
            write_atomic(change.path, change.after, mode)


@contextmanager
def _writing(path: str) -> Iterator[None]:
    """Turn what the system says about a file into what a person can act on."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise MemsearchError(
            f"{tilde(path)} cannot be written: {error.strerror}",
            kind=ErrorClass.DISK_FULL if full else ErrorClass.PERMISSION,
            hint="it is as it was; the command may be run again",
        ) from error


def _missing(folder: str) -> list[str]:
    """The folders above a file that are not there yet, outermost first."""
    found: list[str] = []
    while folder and not os.path.isdir(folder):
        found.insert(0, folder)
        folder = os.path.dirname(folder)
    return found


def record_path(home: Home, agent: str) -> str:
    """Where the record of an agent lies."""
    return os.path.join(home.root, "agents", f"{agent}.json")


def load(path: str) -> Record:
    """The record at a path; empty when there is none.

    Raises:
        MemsearchError: ``BAD_FILE`` when it is damaged.
    """
    data = read(path)
    if data is None:
        return Record()
    try:
        found = json.loads(data)
        files = {
            name: (
                None if item["before"] is None else base64.b64decode(item["before"]),
                str(item["after"]),
            )
            for name, item in found["files"].items()
        }
        return Record(files, [str(folder) for folder in found["folders"]])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MemsearchError(
            f"{tilde(path)} is damaged",
            kind=ErrorClass.BAD_FILE,
            hint="move it away; our part is then found by its look",
        ) from error


def dump(record: Record) -> bytes:
    """A record as JSON. Mode 0600: what it keeps may hold keys of its owner."""
    files = {
        path: {
            "before": None if before is None else base64.b64encode(before).decode("ascii"),
            "after": ours,
        }
        for path, (before, ours) in record.files.items()
    }
    body = {"version": RECORD_VERSION, "files": files, "folders": record.folders}
    return json.dumps(body, ensure_ascii=False, indent=1).encode("utf-8")


def difference(change: Change) -> str:
    """A change as people read it: a unified diff."""
    name = tilde(change.path)
    old, new = (
        ("" if data is None else data.decode("utf-8", "replace")).splitlines()
        for data in (change.before, change.after)
    )
    old_name, new_name = (
        "/dev/null" if data is None else name for data in (change.before, change.after)
    )
    return "\n".join(difflib.unified_diff(old, new, old_name, new_name, lineterm=""))
