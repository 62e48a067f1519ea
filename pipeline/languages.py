"""The sums by language of what the index holds, kept beside its identity in ``state.db``.

One row a document, replaced in the transaction that says that the document is indexed: so a
text that is edited, moved or indexed twice counts once. Not a projection, since vectors are
no events; a document whose row is missing is only not counted until it is indexed again.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from memsearch.sinks.language import Sums

if TYPE_CHECKING:
    from memsearch.pipeline.log import Transaction
    from memsearch.sinks.types import Vectors

_TABLE = """CREATE TABLE IF NOT EXISTS languages(
    stream TEXT PRIMARY KEY, collection TEXT NOT NULL, model TEXT NOT NULL,
    chinese INTEGER NOT NULL, english INTEGER NOT NULL,
    chinese_sum BLOB NOT NULL, english_sum BLOB NOT NULL) WITHOUT ROWID"""


def put(tx: Transaction, stream: str, collection: str, model: str, sums: Sums) -> None:
    """Store the sums of one document, in place of its old ones.

    Args:
        tx: The transaction that says that it is indexed.
        stream: The document's.
        collection: Where it is indexed.
        model: Identity of the model of the vectors.
        sums: Of all its chunks.
    """
    # Here and not in the schema: a database of before has no such table.
    tx.execute(_TABLE)
    tx.execute(
        "INSERT OR REPLACE INTO languages VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            stream,
            collection,
            model,
            sums.chinese,
            sums.english,
            _bytes(sums.chinese_sum),
            _bytes(sums.english_sum),
        ),
    )


def remove(tx: Transaction, stream: str) -> None:
    """Forget a document that left the index."""
    tx.execute(_TABLE)
    tx.execute("DELETE FROM languages WHERE stream = ?", (stream,))


def state(db: sqlite3.Connection, collection: str) -> tuple[int, int]:
    """Something that changes with the collection's documents: sums read before hold until then.

    Args:
        db: ``state.db``.
        collection: Its name.
    """
    try:
        count, seq = db.execute(
            "SELECT COUNT(*), COALESCE(MAX(seq), 0) FROM documents WHERE collection = ?",
            (collection,),
        ).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        return (0, 0)
    return (int(count), int(seq))


def read(db: sqlite3.Connection, collection: str, model: str) -> Sums:
    """The sums of a collection.

    Args:
        db: ``state.db``.
        collection: Its name.
        model: Vectors of other models are not counted.
    """
    try:
        rows = db.execute(
            "SELECT chinese, english, chinese_sum, english_sum FROM languages"
            " JOIN documents USING (stream) WHERE languages.collection = ? AND model = ?"
            " AND documents.state <> 'removed'",
            (collection, model),
        ).fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        return Sums()  # nothing was indexed yet
    sums = Sums()
    for chinese, english, chinese_sum, english_sum in rows:
        sums += Sums(chinese, english, _vector(chinese_sum), _vector(english_sum))
    return sums


def _bytes(vector: Vectors | None) -> bytes:
    if vector is None:
        return b""
    import numpy as np

    return np.ascontiguousarray(vector, "<f4").tobytes()


def _vector(data: bytes) -> Vectors | None:
    if not data:
        return None
    import numpy as np

    return np.frombuffer(data, "<f4").astype(np.float32)
