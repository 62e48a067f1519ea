"""chunk: a changed document is cut, and what it needs is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memsearch.pipeline.events import Event, EventType
from memsearch.pipeline.stages.documents import identity, load

if TYPE_CHECKING:
    from memsearch.pipeline.engine import Engine


def chunk(engine: Engine, stream: str) -> None:
    """Cut one document.

    A file whose text is what is indexed already (touched, or saved as it was) ends here.

    Args:
        engine: The engine.
        stream: The document's stream.
    """
    row = engine.row("chunk", stream)
    if row is None:
        return
    with engine.failing("chunk", row):
        document = load(engine, row)
        current = identity(engine)
        unchanged = (
            not document.missing
            and row["indexed_hash"] == document.hash
            and row["identity"] == current
        )
        facts = {
            "change": row["change"],
            "chunks": len(document.chunks),
            "mtime_ns": document.mtime_ns,
            "size": document.size,
            "hash": document.hash,
        }
        with engine.commit(row) as tx:
            if tx is None:
                return
            if unchanged:
                tx.append(Event(stream, EventType.DOCUMENT_INDEXED, facts | {"identity": current}))
                return
            tx.append(Event(stream, EventType.DOCUMENT_CHUNKED, facts))
            tx.add_task("embed", row["collection"])
