"""embed: the texts of a collection's chunked documents that have no vector yet get one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from memsearch.config.errors import MemsearchError
from memsearch.pipeline import cost
from memsearch.pipeline.events import Event, EventType
from memsearch.pipeline.retry import TRANSIENT
from memsearch.pipeline.stages.documents import OPEN, Document, load
from memsearch.sinks.chunker import embedding_text

if TYPE_CHECKING:
    import sqlite3

    from memsearch.pipeline.engine import Engine

#: Documents that are taken at once at the most.
MAX_DOCUMENTS = 500
#: Batches that are embedded between two writes into the cache: what a kill repeats at most.
BATCHES_A_STEP = 4


def embed(engine: Engine, collection: str) -> None:
    """Embed what a collection's documents need, in full batches across documents.

    Args:
        engine: The engine; it runs this stage once at a time for a collection.
        collection: The collection's name.
    """
    while not engine.stop.is_set():
        paid = _is_paid(engine)
        if paid and cost.is_incomplete(engine, collection):
            return
        # What is paid for is judged as a whole.
        most = -1 if paid else MAX_DOCUMENTS
        rows = engine.log.rows(OPEN, (collection, "embed", time.time(), most))
        if not rows:
            return
        loaded: list[tuple[sqlite3.Row, Document]] = []
        for row in rows:
            with engine.failing("embed", row, collection):
                loaded.append((row, load(engine, row)))
        if paid:
            loaded = _held_back(engine, collection, loaded)
        _embed_all(engine, collection, loaded)


def _is_paid(engine: Engine) -> bool:
    try:
        return engine.embedder().paid
    except MemsearchError:
        return False  # said again, and written down, where a document is embedded


def _held_back(
    engine: Engine, collection: str, loaded: list[tuple[sqlite3.Row, Document]]
) -> list[tuple[sqlite3.Row, Document]]:
    """Those that go on; what cannot be judged has failed."""
    try:
        return cost.hold(engine, engine.embedder(), loaded)
    except Exception as failure:
        error = engine.as_failure("embed", collection, failure)
        for row, _ in loaded:
            engine.failed("embed", row, collection, error)
        return []


def _embed_all(engine: Engine, collection: str, loaded: list[tuple[sqlite3.Row, Document]]) -> None:
    if not loaded:
        return
    try:
        embed_texts(engine, [document for _, document in loaded])
    except Exception as failure:
        error = engine.as_failure("embed", collection, failure)
        if error.kind in TRANSIENT or len(loaded) == 1:
            for row, _ in loaded:
                engine.failed("embed", row, collection, error)
            return
        # One document that the provider refuses must not hold up the others.
        for pair in loaded:
            _embed_all(engine, collection, [pair])
        return
    for row, document in loaded:
        with engine.failing("embed", row, collection), engine.commit(row) as tx:
            if tx is None:
                continue
            facts = {"change": row["change"], "chunks": len(document.chunks)}
            tx.append(Event(row["stream"], EventType.DOCUMENT_EMBEDDED, facts))
            tx.add_task("upsert", collection)


def embed_texts(engine: Engine, documents: list[Document]) -> int:
    """Put the vectors of all chunks into the cache that are not there yet.

    Returns:
        How many texts were embedded.

    Raises:
        MemsearchError: What the provider or the cache could not do.
    """
    texts = {
        chunk.content_hash: embedding_text(chunk.content)
        for document in documents
        for chunk in document.chunks
    }
    if not texts:
        return 0
    embedder, cache = engine.embedder(), engine.cache()
    known = cache.known(embedder.model, list(texts), dimension=embedder.dimension)
    todo = [name for name in texts if name not in known]
    asked = ("embedding", engine.settings().embedding.base_url, embedder.model)
    start, began = 0, time.time()
    while start < len(todo):
        engine.pacing.check(asked)
        # A step that is refused half-way has to be paid for again.
        step = embedder.batch_size * (1 if engine.pacing.has_limit(asked) else BATCHES_A_STEP)
        names = todo[start : start + step]
        try:
            vectors = embedder.embed_passages([texts[name] for name in names])
        except MemsearchError as error:
            engine.pacing.heard(asked, error, began)
            raise
        engine.pacing.answered(asked)
        cache.put_many(embedder.model, dict(zip(names, vectors, strict=True)))
        start += len(names)
    return len(todo)
