"""upsert: a collection's embedded documents go into the index, and what is gone leaves it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline import languages, renewal
from memsearch.pipeline.events import Event, EventType
from memsearch.pipeline.index_repair import put_aside
from memsearch.pipeline.stages.documents import OPEN, Document, identity_of, load, row_of
from memsearch.sinks.chunker import embedding_text
from memsearch.sinks.ids import chunk_hash
from memsearch.sinks.language import add_up

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Set

    from memsearch.pipeline.engine import Engine
    from memsearch.pipeline.log import Transaction

#: Documents that are taken between two looks at what is open.
MAX_DOCUMENTS = 100


def upsert(engine: Engine, collection: str) -> None:
    """Write a collection's embedded documents into the store.

    For another model than the collection's, into one that is built aside and takes its place
    when all are in it (``pipeline.renewal``).

    Args:
        engine: The engine; it runs this stage once at a time for a collection.
        collection: The collection's name.
    """
    while not engine.stop.is_set():
        rows = engine.log.rows(OPEN, (collection, "upsert", time.time(), MAX_DOCUMENTS))
        if not rows:
            renewal.finish(engine, collection)
            return
        places: dict[str, renewal.Place] = {}
        for row in rows:
            if engine.stop.is_set():
                return
            with engine.failing("upsert", row, collection):
                try:
                    _upsert_document(engine, row, places)
                except MemsearchError as error:
                    if not engine.is_index_damage(error):
                        raise
                    put_aside(engine, error)
                    places.clear()
                    raise MemsearchError(error.message, kind=ErrorClass.BUSY) from error


def _upsert_document(engine: Engine, row: sqlite3.Row, places: dict[str, renewal.Place]) -> None:
    """Write one document's rows.

    Args:
        engine: The engine.
        row: The document's state.
        places: By identity, where its collection's rows go; filled here.
    """
    document = load(engine, row)
    facts: dict[str, object] = {"change": row["change"]}
    if document.hash != (row["hash"] or ""):
        # Saved again since it was chunked: what was embedded is no longer what is there.
        with engine.commit(row) as tx:
            if tx is not None:
                _again(tx, row, document)
        return
    embedder, store = engine.embedder(), engine.store()
    collection, source = row["collection"], row["source"]
    vectors = engine.cache().get_many(
        embedder.model,
        [chunk.content_hash for chunk in document.chunks],
        dimension=embedder.dimension,
    )
    if any(chunk.content_hash not in vectors for chunk in document.chunks):
        with engine.commit(row) as tx:
            if tx is not None:
                _again(tx, row, document)  # a vector left the cache: back to embed
        return
    # Of the vectors at hand, not of the settings, which may have changed since.
    current = identity_of(embedder.model)
    place = places.get(current)
    if place is None:
        places.clear()  # what was begun for another model may be dropped by this
        place = renewal.place_of(engine, collection, current)
    if document.chunks:
        width = len(next(iter(vectors.values())))
        if renewal.changed_width(engine, place, width):
            place = renewal.place_of(engine, collection, current)
        renewal.prepare(engine, place, width)
    places[current] = place
    rows = place.rows
    wanted = {chunk_hash(chunk, embedder.model): chunk for chunk in document.chunks}
    there = store.ids(rows, source)
    new = [
        row_of(name, chunk, vectors[chunk.content_hash])
        for name, chunk in wanted.items()
        if name not in there
    ]
    if new:
        store.upsert(rows, new)
    gone = sorted(there - wanted.keys())
    if gone:  # never before what replaces it is there
        store.delete(rows, gone)
    if new or gone:
        _check(store.ids(rows, source), wanted.keys(), source)
    if place.live is not None:
        renewal.keep_answering(engine, place, source, document, row["indexed_hash"])
    sums = add_up(
        (embedding_text(chunk.content), vectors[chunk.content_hash]) for chunk in document.chunks
    )
    with engine.commit(row) as tx:
        if tx is None:
            return
        if document.missing:
            languages.remove(tx, row["stream"])
            tx.append(Event(row["stream"], EventType.DOCUMENT_REMOVED, facts))
            return
        facts |= {
            "chunks": len(wanted),
            "new": len(new),
            "kept": len(wanted) - len(new),
            "gone": len(gone),
            "mtime_ns": document.mtime_ns,
            "size": document.size,
            "hash": document.hash,
            "identity": current,
        }
        languages.put(tx, row["stream"], collection, embedder.model, sums)
        tx.append(Event(row["stream"], EventType.DOCUMENT_INDEXED, facts))


def _again(tx: Transaction, row: sqlite3.Row, document: Document) -> None:
    """Back to embed, with the document as it is now."""
    facts = {
        "change": row["change"],
        "chunks": len(document.chunks),
        "mtime_ns": document.mtime_ns,
        "size": document.size,
        "hash": document.hash,
    }
    tx.append(Event(row["stream"], EventType.DOCUMENT_CHUNKED, facts))
    tx.add_task("embed", row["collection"])


def _check(there: Set[str], wanted: Set[str], source: str) -> None:
    missing, extra = wanted - there, there - wanted
    if missing or extra:
        raise MemsearchError(
            f"the index does not hold what was written for {source}"
            f" ({len(missing)} chunks missing, {len(extra)} too many)",
            kind=ErrorClass.SERVER,
            hint="memsearch index --force rebuilds it",
        )
