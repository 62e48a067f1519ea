"""Reading an agent's SQLite database: only reading, and leaving no trace in its folder."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import quote

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sources.lines import BLOCK_BYTES, MAX_LINE_BYTES, Record, Shrinker, decode

#: Seconds that a database which its agent is writing is waited for.
BUSY_SECONDS = 5.0
#: Where the header says how the file is written, and what it says for a write-ahead log
#: (https://www.sqlite.org/fileformat2.html, "file format version numbers").
_WRITE_VERSION_OFFSET = 18
_WRITES_AHEAD = 2


@contextmanager
def open_readonly(path: str) -> Iterator[sqlite3.Connection]:
    """A database, opened so that nothing can be written and nothing is created.

    SQLite reads a database with a write-ahead log by help of two files beside it, and makes
    them when they are missing. They are missing when no process has the database open; then
    it is opened as one that does not change, which needs neither.

    Raises:
        MemsearchError: ``BAD_FILE`` when it is missing, no database or damaged, ``PERMISSION``,
            ``BUSY``; errors inside the block too.
    """
    if not os.path.isfile(path):
        raise MemsearchError(
            f"there is no database {path}",
            kind=ErrorClass.BAD_FILE,
            hint="the agent has not been used yet, or keeps its data elsewhere",
        )
    with translated(path):
        mode = "mode=ro&immutable=1" if _is_at_rest(path) else "mode=ro"
        uri = f"file:{quote(os.path.abspath(path))}?{mode}"
        with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)) as db:
            db.row_factory = sqlite3.Row
            # A text that is not UTF-8 is read all the same.
            db.text_factory = lambda data: data.decode("utf-8", "replace")
            db.execute("PRAGMA query_only = ON").fetchall()
            yield db


def _is_at_rest(path: str) -> bool:
    if os.path.exists(path + "-wal") or os.path.exists(path + "-journal"):
        return False
    try:
        with open(path, "rb") as file:
            head = file.read(_WRITE_VERSION_OFFSET + 1)
    except OSError:
        return False
    return len(head) > _WRITE_VERSION_OFFSET and head[_WRITE_VERSION_OFFSET] == _WRITES_AHEAD


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Tell SQLite's errors about an agent's database apart by what can be done about them."""
    try:
        yield
    except sqlite3.Error as error:
        raise _error(error, path) from error


def _error(error: sqlite3.Error, path: str) -> MemsearchError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return MemsearchError(
            f"{path} is held by its agent ({error})", kind=ErrorClass.BUSY, hint="try again"
        )
    if name.startswith(("SQLITE_PERM", "SQLITE_AUTH", "SQLITE_READONLY")) or not os.access(
        path, os.R_OK
    ):
        return MemsearchError(
            f"{path} may not be read ({error})",
            kind=ErrorClass.PERMISSION,
            hint="run memsearch as the user who runs the agent",
        )
    return MemsearchError(f"{path} cannot be read ({error})", kind=ErrorClass.BAD_FILE)


def tables(db: sqlite3.Connection) -> dict[str, frozenset[str]]:
    """The tables of a database, and the names of their columns."""
    names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {
        name: frozenset(
            column for (column,) in db.execute("SELECT name FROM pragma_table_info(?)", (name,))
        )
        for (name,) in names
    }


def unknown_schema(path: str, found: dict[str, frozenset[str]], agent: str) -> MemsearchError:
    """The error of a database that this release cannot read, which names what is in it."""
    names = ", ".join(sorted(found)[:12]) or "none"
    return MemsearchError(
        f"{path} has a schema of {agent} that is not known (its tables: {names})",
        kind=ErrorClass.BAD_FILE,
        hint="upgrade memsearch; until then nothing of this database is captured",
    )


def quoted(name: str) -> str:
    """A table's or column's name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def read_json(
    db: sqlite3.Connection, table: str, column: str, rowid: int, size: int
) -> Record | None:
    """The JSON object in one field, in bounded memory; None when it holds none.

    Args:
        db: The database.
        table: The table, which has rowids.
        column: The column.
        rowid: The row.
        size: The field's length (characters or bytes), as a query gave it.
    """
    if size <= MAX_LINE_BYTES // 4:
        row = db.execute(
            f"SELECT {quoted(column)} FROM {quoted(table)} WHERE rowid = ?", (rowid,)
        ).fetchone()
        return None if row is None else parse(row[0])
    shrinker = Shrinker()
    with db.blobopen(table, column, rowid, readonly=True) as blob:
        while piece := blob.read(BLOCK_BYTES):
            shrinker.feed(piece)
    data = shrinker.result()
    record = None if data is None else decode(data)
    return record if isinstance(record, dict) else None


def parse(text: object) -> Record | None:
    """The JSON object in a text; None when it holds none."""
    if not isinstance(text, str):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
