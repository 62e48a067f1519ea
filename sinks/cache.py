"""Vectors by text and model, so that the same text is never embedded twice.

One SQLite file (WAL) that any number of threads and processes use at once. It is a shadow:
it may be deleted at any moment, and a damaged one is moved aside and begun anew; either costs
embedding again and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.disk import disk_error
from memsearch.sinks.types import Vectors

#: Seconds to wait for another process's write.
BUSY_SECONDS = 15.0

#: Hashes in one SELECT: below the smallest limit of SQLite builds (999 variables).
SELECT_BATCH = 500

#: How far a stored vector's length may be from 1.
NORM_TOLERANCE = 0.01

_SCHEMA = """
CREATE TABLE IF NOT EXISTS embeddings (
    model TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (model, content_hash)
) WITHOUT ROWID
"""

# Primary result codes of SQLite, https://www.sqlite.org/rescode.html
_BUSY, _LOCKED, _READONLY, _CORRUPT, _FULL, _CANTOPEN, _NOTADB = 5, 6, 8, 11, 13, 14, 26

# SQLite has one code for every mistake in a statement; these words tell a table of another
# shape from a fault of ours.
_OTHER_SHAPE = re.compile(r"no such (table|column)|has no column|has \d+ columns|values for \d+")

# Extended code of a write that the system refused for another reason than a full disk: a used-up
# quota or a limit on the size of files, as a rule.
_IOERR_WRITE = 778

_KINDS = {
    _BUSY: (ErrorClass.BUSY, ""),
    _LOCKED: (ErrorClass.BUSY, ""),
    _FULL: (ErrorClass.DISK_FULL, "make room and try again"),
    _READONLY: (ErrorClass.PERMISSION, "the file and its folder must be yours to write"),
    _CANTOPEN: (ErrorClass.PERMISSION, "the file and its folder must be yours to write"),
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Damage:
    """A cache that could not be read: why, and where it was moved (empty: it was left)."""

    path: str
    reason: str
    moved_to: str


class EmbeddingCache:
    """Thread-safe. The file is opened at the first call, and again after ``close``.

    Args:
        path: The SQLite file. It and its folder are made when missing.
        read_only: Never write, not even the file itself; a missing or damaged one is empty.
        on_damage: Told of each damaged file; they are also kept in ``damages``.
    """

    def __init__(
        self,
        path: str,
        read_only: bool = False,
        *,
        on_damage: Callable[[Damage], None] | None = None,
    ) -> None:
        self.path = path
        self.read_only = read_only
        self.damages: list[Damage] = []
        self._on_damage = on_damage
        self._connection: sqlite3.Connection | None = None
        # Device and inode of the file that is open, and of one that could not be read.
        self._file: tuple[int, int] | None = None
        self._unreadable: tuple[int, int] | None = None
        self._lock = threading.RLock()

    def get_many(
        self, model: str, hashes: Iterable[str], *, dimension: int | None = None
    ) -> dict[str, Vectors]:
        """The vectors that are there.

        Args:
            model: Identity of the model.
            hashes: Content hashes, SHA-256 hex; doubles are allowed.
            dimension: Length that a vector must have, when it is known.

        Returns:
            Vectors of shape ``(dimension,)``, float32, by content hash. One that is cut
            short, of another length, not finite or not of norm 1 is left out, as if it had
            never been stored.

        Raises:
            MemsearchError: ``BUSY``, ``PERMISSION`` or ``DISK_FULL``.
        """
        wanted = list(dict.fromkeys(hashes))

        def read(connection: sqlite3.Connection) -> dict[str, Vectors]:
            found: dict[str, Vectors] = {}
            for start in range(0, len(wanted), SELECT_BATCH):
                for name, blob in _select(connection, model, wanted[start : start + SELECT_BATCH]):
                    vector = _vector(blob, dimension)
                    if vector is not None:
                        found[name] = vector
            return found

        return self._do(read) or {}

    def known(self, model: str, hashes: Iterable[str], *, dimension: int | None = None) -> set[str]:
        """The hashes for which ``get_many`` has a vector; it reads them, to be sure."""
        return set(self.get_many(model, hashes, dimension=dimension))

    def put_many(self, model: str, vectors: Mapping[str, Vectors]) -> None:
        """Store vectors by content hash, in one transaction; present ones are replaced.

        Raises:
            MemsearchError: ``BUSY``, ``PERMISSION`` (also of a read-only cache) or
                ``DISK_FULL``; nothing was stored then.
        """
        if self.read_only:
            raise MemsearchError(
                f"the embedding cache {self.path} is open for reading only",
                kind=ErrorClass.PERMISSION,
            )
        rows = [
            (model, name, np.ascontiguousarray(vector, "<f4").tobytes())
            for name, vector in vectors.items()
        ]
        if rows:
            self._write(
                lambda connection: connection.executemany(
                    "INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?)", rows
                )
            )

    def delete_many(self, hashes: Iterable[str]) -> int:
        """Take texts out, of every model; the freed bytes are overwritten.

        Returns:
            How many vectors were there.

        Raises:
            MemsearchError: as for ``put_many``.
        """
        rows = [(name,) for name in dict.fromkeys(hashes)]

        def delete(connection: sqlite3.Connection) -> int:
            connection.execute("PRAGMA secure_delete = ON")
            cursor = connection.executemany("DELETE FROM embeddings WHERE content_hash = ?", rows)
            return cursor.rowcount

        if self.read_only or not rows or not Path(self.path).exists():
            return 0
        return self._write(delete) or 0

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            connection, self._connection = self._connection, None
            self._file = None
            if connection is not None:
                connection.close()

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        def transaction(connection: sqlite3.Connection) -> T:
            # Immediate: a read that turns into a write cannot wait for another writer.
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result

        return self._do(transaction)

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Run ``work`` on an open connection; None when a read-only cache has no file."""
        with self._lock:
            try:
                return self._once(work)
            except sqlite3.Error as exc:
                if not _is_damage(exc):
                    raise self._error(exc) from exc
                self._set_aside(str(exc))
            try:
                return self._once(work)
            except sqlite3.Error as exc:
                raise self._error(exc) from exc

    def _once(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        connection = self._open()
        return None if connection is None else work(connection)

    def _open(self) -> sqlite3.Connection | None:
        present = _identity(self.path)
        if self._connection is not None and present == self._file:
            return self._connection
        # Somebody deleted or replaced the file: what is written into the old one is lost.
        self.close()
        if self.read_only:
            if present is not None and present != self._unreadable:
                self._file = present
                self._connection = _connect_reading(self.path)
        else:
            _make_file(self.path)
            # Before it is opened: if it proves damaged, this is the one to move.
            self._file = _identity(self.path)
            self._connection = _connect(self.path)
        return self._connection

    def _set_aside(self, reason: str) -> None:
        """Move a damaged file out of the way, unless another process has done so already."""
        damaged = self._file
        self.close()
        moved_to = ""
        if self.read_only:
            self._unreadable = damaged
        else:
            with _lock(self.path + ".lock"):
                if _identity(self.path) != damaged:
                    return
                moved_to = f"{self.path}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
                try:
                    # The side files first: SQLite drops a log that lies beside an empty
                    # database, but would play it into one that has grown.
                    for suffix in ("-wal", "-shm"):
                        Path(self.path + suffix).unlink(missing_ok=True)
                    os.replace(self.path, moved_to)
                except OSError as exc:
                    raise disk_error(
                        exc, f"the damaged embedding cache {self.path} cannot be moved aside"
                    ) from exc
        damage = Damage(self.path, reason, moved_to)
        self.damages.append(damage)
        if self._on_damage is not None:
            self._on_damage(damage)

    def _error(self, exc: sqlite3.Error) -> MemsearchError:
        code = _FULL if getattr(exc, "sqlite_errorcode", 0) == _IOERR_WRITE else _code(exc)
        kind, hint = _KINDS.get(
            code, (ErrorClass.DAMAGED, "delete it if this lasts; it is only a cache")
        )
        return MemsearchError(
            f"the embedding cache {self.path} cannot be used: {exc}", kind=kind, hint=hint
        )


def _is_damage(exc: sqlite3.Error) -> bool:
    return _code(exc) in (_CORRUPT, _NOTADB) or _OTHER_SHAPE.search(str(exc)) is not None


def _code(exc: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 for an error of Python's own."""
    return int(getattr(exc, "sqlite_errorcode", 0) or 0) & 0xFF


def _identity(path: str) -> tuple[int, int] | None:
    try:
        state = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise disk_error(exc, f"the embedding cache {path} cannot be opened") from exc
    return state.st_dev, state.st_ino


def _make_file(path: str) -> None:
    try:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives its side files the mode of the database.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as exc:
        raise disk_error(exc, f"the embedding cache {path} cannot be opened") from exc


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        # First, so that a file with tables of another shape is moved aside as it was.
        _has_table(connection)
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        # A power cut may lose the last vectors, never the file.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(_SCHEMA)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_reading(path: str) -> sqlite3.Connection | None:
    """Open without writing; None when no table has been made yet.

    In a folder that cannot be written into, where WAL wants to make its side files, the file
    is read as it lies.
    """
    address = "file:" + quote(str(Path(path).absolute()))
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        connection = sqlite3.connect(
            f"{address}?{mode}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            if _has_table(connection):
                return connection
        except sqlite3.Error as exc:
            connection.close()
            if "immutable" in mode or _code(exc) not in (_CANTOPEN, _READONLY):
                raise
        else:
            connection.close()
            return None
    raise AssertionError("unreachable")


def _has_table(connection: sqlite3.Connection) -> bool:
    """The table is there.

    Raises:
        sqlite3.Error: it has another shape, or the file cannot be read.
    """
    try:
        connection.execute("SELECT model, content_hash, vector FROM embeddings LIMIT 1").fetchall()
    except sqlite3.OperationalError as exc:
        if "no such table" not in str(exc):
            raise
        return False
    return True


def _select(
    connection: sqlite3.Connection, model: str, hashes: Sequence[str]
) -> list[tuple[str, bytes]]:
    marks = ",".join("?" * len(hashes))
    # Only question marks are put into the text.
    query = (
        f"SELECT content_hash, vector FROM embeddings WHERE model = ? AND content_hash IN ({marks})"
    )
    return connection.execute(query, (model, *hashes)).fetchall()


def _vector(blob: object, dimension: int | None) -> Vectors | None:
    """The stored vector, or None when it is none."""
    if not isinstance(blob, bytes) or not blob or len(blob) % 4:
        return None
    vector: npt.NDArray[np.float32] = np.frombuffer(blob, "<f4").astype(np.float32)
    if dimension is not None and len(vector) != dimension:
        return None
    norm = float(np.linalg.norm(vector.astype(np.float64)))
    return vector if abs(norm - 1.0) <= NORM_TOLERANCE else None  # False for NaN, too


@contextlib.contextmanager
def _lock(path: str) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=BUSY_SECONDS, mode=0o600, thread_local=False)
    try:
        lock.acquire()
    except Timeout as exc:
        raise MemsearchError(
            f"another process holds {path}", kind=ErrorClass.BUSY, hint="try again"
        ) from exc
    try:
        yield
    finally:
        lock.release()
