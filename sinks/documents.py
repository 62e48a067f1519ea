"""Markdown files as documents: which files count, what they hold, whether they changed."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from memsearch.config.errors import ErrorClass, MemsearchError, passes
from memsearch.sinks.ignoring import SKIPPED_FOLDERS, Rules
from memsearch.sinks.journal_format import journal_day
from memsearch.sinks.types import Kind

#: How the names of documents end, lower case.
SUFFIXES = (".md", ".markdown")
#: A larger file, in bytes, is no Markdown that somebody wrote.
MAX_DOCUMENT_BYTES = 64 * 1024 * 1024

_DIGEST = re.compile(r"digest-([0-9]{4}-[0-9]{2})(?:[. (].*)?\.(?:md|markdown)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FileState:
    """What tells without reading that a file did not change."""

    mtime_ns: int
    size: int


@dataclass(frozen=True, slots=True)
class Document:
    """A file as it was at one moment.

    Attributes:
        text: As ``read_document`` gives it.
        state: Of the very file that was read, taken before reading it.
        sha256: Of its bytes, 64 hex digits.
        damaged: It was not valid UTF-8; the broken places are U+FFFD in ``text``.
    """

    text: str
    state: FileState
    sha256: str
    damaged: bool


@dataclass(frozen=True, slots=True)
class Walk:
    """The documents that were found, and what could not be looked into.

    Attributes:
        files: Absolute paths, sorted, each once.
        unreadable: One error for each folder that could not be listed, and for each document
            and folder whose name is not UTF-8. What lies in a folder is unknown then, so nothing
            of it may be pruned: ``covers`` says so.
        folders: What could not be read, in the same order.
        rules: What was left out, for each named folder.
    """

    files: tuple[str, ...]
    unreadable: tuple[MemsearchError, ...] = ()
    folders: tuple[str, ...] = ()
    rules: tuple[Rules, ...] = ()

    def covers(self, path: str) -> bool:
        """Would the walk have found this path, were it there?"""
        return not any(path.startswith(folder.rstrip(os.sep) + os.sep) for folder in self.folders)

    def excludes(self, path: str) -> bool:
        """Did a pattern keep the walk from this path, which lies in a named folder?

        Not where another named folder, or the path itself, was named and gives it.
        """
        inside = [rule for rule in self.rules if path.startswith(rule.root.rstrip("/") + "/")]
        return bool(inside) and all(r.excludes(path) for r in inside) and path not in self.files


def is_document(path: str) -> bool:
    """Is this a document by its name? Editors' temporary, lock and backup files are not."""
    name = path[max(path.rfind("/"), path.rfind("\\")) + 1 :]
    return name.lower().endswith(SUFFIXES) and not name.startswith((".", "~", "#"))


def is_utf8(path: str) -> bool:
    """Whether a path can be stored: one that is not UTF-8 comes with surrogates for its bytes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown_path(path: str) -> str:
    """A path as it can be printed: ``caf\\xe9`` where it is not UTF-8."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def kind_of(source: str, *, archived: bool = False) -> Kind:
    """What a document holds, by its name and folder.

    Args:
        source: Path of the document.
        archived: It lies in the archive of its memory, wherever that is.
    """
    parts = re.split(r"[/\\]", source)
    if archived or any(pair == (".memsearch", "archive") for pair in pairwise(parts)):
        return "archive"
    if journal_day(parts[-1]):
        return "entry"
    return "digest" if _DIGEST.fullmatch(parts[-1]) else "note"


def digest_month(source: str) -> str:
    """The month of a digest by its file's name, ``YYYY-MM``; empty for what is none."""
    match = _DIGEST.fullmatch(re.split(r"[/\\]", source)[-1])
    return match[1] if match else ""


def read_document(path: str) -> str:
    """A document's text: UTF-8 with replacement, without BOM, lines ended by ``\\n``.

    Line numbers stay those of the file: only ``\\r\\n`` becomes ``\\n``.

    Raises:
        MemsearchError: ``PERMISSION``, or ``BAD_FILE`` when it is gone, no regular file or
            larger than ``MAX_DOCUMENT_BYTES``.
    """
    return load_document(path).text


def load_document(path: str) -> Document:
    """A document with its state and hash, all of one moment.

    Raises:
        MemsearchError: as ``read_document``.
    """
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        # O_NONBLOCK: opening a pipe that is called x.md would wait for its writer.
        descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise MemsearchError(f"{path} is not a regular file", kind=ErrorClass.BAD_FILE)
            data = file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as exc:
        raise _error(exc, path) from exc
    if len(data) > MAX_DOCUMENT_BYTES:
        raise MemsearchError(
            f"{path} is larger than {MAX_DOCUMENT_BYTES // 1024 // 1024} MB",
            kind=ErrorClass.BAD_FILE,
            hint="split it, or leave it out with indexing.exclude",
        )
    text, damaged = decode(data)
    return Document(text, _state(status), hashlib.sha256(data).hexdigest(), damaged)


def decode(data: bytes) -> tuple[str, bool]:
    """A file's bytes as text, and whether they were broken."""
    try:
        text, damaged = data.decode("utf-8"), False
    except UnicodeDecodeError:
        text, damaged = data.decode("utf-8", "replace"), True
    return text.removeprefix("\ufeff").replace("\r\n", "\n"), damaged


def walk(
    paths: Iterable[str],
    exclude: Sequence[str] = (),
    *,
    ignore_files: Sequence[str] = (),
    ceiling: str = "",
) -> Walk:
    """The documents that paths name: files themselves, and all that lies in folders.

    Hidden folders below a named one are left out, but a named folder may be hidden itself
    (``.memsearch/memory``). Links below a named folder are not followed: what they point to
    inside it is found by its own path, and the rest was not named. Files that vanish while
    it runs are no error.

    Args:
        paths: Files and folders; relative ones are taken from the current folder.
        exclude: Patterns as in ``.gitignore``, relative to the named folder or to
            ``ceiling``: ``drafts``, ``*.tmp.md``, ``docs/old/*``.
        ignore_files: Names of files whose patterns count below their folder, besides
            ``.memsearchignore``, which always does.
        ceiling: Ignore files between this folder and a named one inside it count too.

    Raises:
        MemsearchError: ``BAD_FILE`` when a named path is missing or no document,
            ``PERMISSION`` when it cannot be reached.
    """
    files: set[str] = set()
    faults: dict[str, MemsearchError] = {}
    rules: list[Rules] = []
    for named in paths:
        root = os.path.abspath(named)  # as named, links not resolved
        try:
            mode = Path(root).stat().st_mode
        except OSError as exc:
            raise _error(exc, named) from exc
        if stat.S_ISDIR(mode):
            rules.append(Rules(root, exclude, ignore_files, ceiling))
            files.update(_below(rules[-1], faults))
        elif is_document(root) and stat.S_ISREG(mode):
            if not is_utf8(root):
                raise _badly_named(root)
            files.add(root)
        else:
            raise MemsearchError(
                f"{named} is not a Markdown file",
                kind=ErrorClass.BAD_FILE,
                hint=f"name a folder, or a file that ends with {' or '.join(SUFFIXES)}",
            )
    return Walk(tuple(sorted(files)), tuple(faults.values()), tuple(faults), tuple(rules))


def walk_by(rules: Rules) -> Walk:
    """The documents below one folder; one that is gone holds none."""
    faults: dict[str, MemsearchError] = {}
    files = tuple(sorted(_below(rules, faults)))
    return Walk(files, tuple(faults.values()), tuple(faults), (rules,))


def _below(rules: Rules, faults: dict[str, MemsearchError]) -> Iterable[str]:
    waiting = [rules.root]
    while waiting:
        folder = waiting.pop()
        if not is_utf8(folder):
            faults[folder] = _badly_named(folder)
            continue
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except FileNotFoundError:
            continue
        except OSError as exc:
            faults[folder] = _error(exc, folder)
            continue
        plain = rules.are_plain_in(folder)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name.startswith(".") or entry.name in SKIPPED_FOLDERS:
                    continue
                if plain or not rules.matches(entry.path, folder=True):
                    waiting.append(entry.path)
            elif (
                is_document(entry.name)
                and entry.is_file(follow_symlinks=False)
                and (plain or not rules.matches(entry.path, folder=False))
            ):
                if is_utf8(entry.name):
                    yield entry.path
                else:
                    faults[entry.path] = _badly_named(entry.path)


def _state(status: os.stat_result) -> FileState:
    return FileState(status.st_mtime_ns, status.st_size)


def _badly_named(path: str) -> MemsearchError:
    return MemsearchError(
        f"cannot index {shown_path(path)}: its name is not UTF-8",
        kind=ErrorClass.BAD_FILE,
        hint="rename it",
    )


def _error(exc: OSError, path: str) -> MemsearchError:
    kind = ErrorClass.PERMISSION if isinstance(exc, PermissionError) else ErrorClass.BAD_FILE
    if passes(exc):
        kind = ErrorClass.BUSY
    return MemsearchError(f"cannot read {path}: {exc.strerror or exc}", kind=kind)
