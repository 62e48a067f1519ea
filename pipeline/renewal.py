"""Renewal: a collection built anew aside, for another model or other rules, and swapped in.

What was changed is the index's identity: the model, the chunker, the keyword rules. The
documents go through their usual stages again, and ``upsert`` writes their rows into a second
collection beside the one that answers. When the last one is in it, the second takes the place
and the name of the first.

Meanwhile the first one stays a whole index for keywords. A document that changes is written
into it too, with vectors where the cache still has the old model's, and else with a vector
that means nothing; the collection then says of itself that its vectors cannot be compared.

The store's own word decides what a collection holds (``Store.identity``), never the log's: a
process may be killed between the two. The row in ``renewals`` only says that something is
under way, so that a worker need not open the store to know.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.statedb import utc_now
from memsearch.pipeline.events import Event, EventType
from memsearch.pipeline.index_repair import put_aside, requeue
from memsearch.pipeline.stages.documents import COST, Document, model_of, row_of
from memsearch.pipeline.stages.documents import identity as current_identity
from memsearch.pipeline.stages.embed import embed_texts
from memsearch.sinks.ids import chunk_hash, content_hash
from memsearch.sinks.store import NEXT, PREVIOUS
from memsearch.sinks.types import IDENTITY, PARTIAL, Chunk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memsearch.pipeline.engine import Engine
    from memsearch.pipeline.log import EventLog, Transaction
    from memsearch.sinks.types import Store, Vectors

#: Failures of a document for itself. With any other one the swap waits: a provider that is
#: down must not cost an index its documents.
OWN_FAULTS = (
    ErrorClass.BAD_FILE,
    ErrorClass.BAD_REQUEST,
    ErrorClass.REFUSED,
    ErrorClass.PERMISSION,
    ErrorClass.BUG,
)
_OWN = ", ".join(f"'{each.value}'" for each in OWN_FAULTS)

#: Of a document of a collection: it keeps the swap to an identity waiting.
_PENDING = (
    "(state = 'open' OR (state = 'done' AND COALESCE(identity, '') <> ?)"
    f" OR (state = 'dead' AND COALESCE(error_class, '') NOT IN ({_OWN})))"
)

#: Seconds until a swap that failed is tried again; doubled up to the second number.
RETRY_SECONDS = (5.0, 600.0)

#: Added to the model in the id of a row that answers by its keywords alone.
WORDS_ALONE = "+keywords"


@dataclass(frozen=True, slots=True)
class Live:
    """A collection that answers and is to be replaced.

    Attributes:
        identity: What it holds; empty when nobody can say.
        dimension: Length of its vectors.
        partial: Some of its rows have no vector of its model.
    """

    identity: str
    dimension: int
    partial: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Where rows go.

    Attributes:
        collection: The name that is asked.
        identity: What the rows are.
        rows: The collection that rows of this identity go into.
        live: What answers until then; None when ``rows`` does.
    """

    collection: str
    identity: str
    rows: str
    live: Live | None = None


def place_of(engine: Engine, collection: str, identity: str) -> Place:
    """Where a collection's rows of an identity go now; begins a renewal when one is needed.

    Args:
        engine: The engine; the caller is its only ``upsert`` of this collection.
        collection: The collection's name.
        identity: What the rows are.
    """
    store = engine.store()
    aside = collection + NEXT
    dimension = store.dimension(collection)
    if dimension is None:
        if _held(store, aside).identity == identity:
            store.swap(collection)
        else:
            store.drop(collection)  # and what was begun beside it
        return Place(collection, identity, collection)
    live = _live(engine, collection, identity, dimension)
    if live.identity == identity:
        return Place(collection, identity, collection)
    if store.dimension(aside) is not None and _held(store, aside).identity != identity:
        # Begun for another model, or killed before it could say for which.
        store.drop(aside)
    with engine.log.transaction() as tx:
        _note_begin(tx, collection, identity, live.identity)
    return Place(collection, identity, aside, live)


def prepare(engine: Engine, place: Place, width: int) -> None:
    """Make the collection that rows go into, if it is missing.

    Args:
        engine: The engine.
        place: From ``place_of``.
        width: Length of the vectors.
    """
    store = engine.store()
    if store.dimension(place.rows) is None:
        store.ensure(place.rows, width)
        store.set_identity(place.rows, {IDENTITY: place.identity})
        return
    store.ensure(place.rows, width)  # heals what a killed process left undone


def changed_width(engine: Engine, place: Place, width: int) -> bool:
    """Whether an endpoint gives vectors of another length than before under the same name.

    Then what is there is of another model, and is told to say so.
    """
    store = engine.store()
    there = store.dimension(place.rows)
    if there in (None, width):
        return False
    assert there is not None
    held = model_of(place.identity)
    rules = place.identity.removeprefix(held)
    store.set_identity(place.rows, {IDENTITY: f"{held}@{there}{rules}"})
    return True


def keep_answering(
    engine: Engine, place: Place, source: str, document: Document, known_hash: str | None
) -> None:
    """Bring what answers meanwhile up to date with one document.

    Args:
        engine: The engine.
        place: With ``live``.
        source: The document's.
        document: As it is now; a missing one leaves.
        known_hash: Of the text that was indexed before.
    """
    live = place.live
    assert live is not None
    if not document.missing and document.hash == known_hash:
        return
    store, model = engine.store(), model_of(live.identity)
    vectors = engine.cache().get_many(
        model, [chunk.content_hash for chunk in document.chunks], dimension=live.dimension
    )
    there = store.ids(place.collection, source)
    wanted: dict[str, tuple[Chunk, Vectors | None]] = {}
    for chunk in document.chunks:
        name = chunk_hash(chunk, model)
        vector = vectors.get(chunk.content_hash)
        if name not in there and vector is None:
            name = chunk_hash(chunk, model + WORDS_ALONE)
        wanted[name] = (chunk, vector)
    new = {name: pair for name, pair in wanted.items() if name not in there}
    if (
        any(vector is None for _, vector in new.values())
        and not _held(store, place.collection).partial
    ):
        # Before the first such row, so that nobody ever compares with one.
        store.set_identity(place.collection, {IDENTITY: live.identity, PARTIAL: True})
    if new:
        nothing = _no_meaning(live.dimension)
        store.upsert(
            place.collection,
            [
                row_of(name, chunk, nothing if vector is None else vector)
                for name, (chunk, vector) in new.items()
            ],
        )
    gone = sorted(there - wanted.keys())
    if gone:
        store.delete(place.collection, gone)


def finish(engine: Engine, collection: str) -> None:
    """Swap when all documents are in the new collection; tidy up when it is no longer wanted.

    Safe to kill at any point, and to call at any time by the only ``upsert`` of a collection.
    """
    row = engine.log.row("SELECT * FROM renewals WHERE collection = ?", (collection,))
    if row is None or (row["due"] and row["due"] > time.time()):
        return
    try:
        _finish(engine, collection, str(row["old"]))
    except MemsearchError as error:
        if engine.is_log_damage(error):
            raise
        if engine.is_index_damage(error):
            put_aside(engine, error)
        attempts = int(row["attempts"]) + 1
        due = time.time() + min(RETRY_SECONDS[0] * 2 ** (attempts - 1), RETRY_SECONDS[1])
        with engine.log.transaction() as tx:
            tx.execute(
                "UPDATE renewals SET attempts = ?, due = ?, error = ? WHERE collection = ?",
                (attempts, due, str(error), collection),
            )
            tx.add_task("upsert", collection, due)
        engine.note("renewal_failed", level="error", collection=collection, error=error.message)


def _finish(engine: Engine, collection: str, old: str) -> None:
    identity = current_identity(engine)
    if pending(engine.log, collection, identity):
        return
    if not engine.has_index():
        _note_end(engine, collection)
        return
    store = engine.store()
    aside = collection + NEXT
    held = _held(store, collection)
    if held.identity == identity:
        # The old model is wanted again; or it was swapped, and killed before that was noted.
        store.drop(aside)
        store.drop(collection + PREVIOUS)
        if held.partial:
            store.set_identity(collection, {IDENTITY: identity})
        _note_end(engine, collection)
        return
    if store.dimension(aside) is not None and _held(store, aside).identity != identity:
        store.drop(aside)
    if not _is_whole(engine, collection, identity):
        return
    _carry_over(engine, collection)
    if store.dimension(aside) is None:
        # Nothing is left to be indexed.
        store.drop(collection)
    else:
        store.swap(collection)
    _note_end(engine, collection)
    engine.note("index_renewed", collection=collection, identity=identity, before=old)


def _is_whole(engine: Engine, collection: str, identity: str) -> bool:
    """Whether the new collection holds what the log says; what it lacks is sent again."""
    store = engine.store()
    aside = collection + NEXT
    counts = store.counts(aside)
    rows = engine.log.rows(
        "SELECT * FROM documents WHERE collection = ? AND state = 'done' AND identity = ?",
        (collection, identity),
    )
    wrong = [row for row in rows if counts.get(row["source"], 0) != (row["chunks"] or 0)]
    whole = {row["source"] for row in rows}
    for source in counts.keys() & _known(engine.log, collection) - whole:
        store.delete(aside, sorted(store.ids(aside, source)))
    return not requeue(engine, wrong)


def _carry_over(engine: Engine, collection: str) -> None:
    """Take documents along that this log does not know: other machines' in a shared index.

    Their files are not here, but their text is in the old collection. Where embedding them may
    cost money, those without a vector are left to the machine that has them.
    """
    store, embedder = engine.store(), engine.embedder()
    aside = collection + NEXT
    there = store.counts(aside)
    others = store.counts(collection).keys() - _known(engine.log, collection) - there.keys()
    left = 0
    for source in sorted(others):
        document = Document(
            tuple(
                Chunk(
                    source=hit.source,
                    heading=hit.heading,
                    heading_level=hit.heading_level,
                    start_line=hit.start_line,
                    end_line=hit.end_line,
                    content=hit.content,
                    content_hash=content_hash(hit.content),
                    kind=hit.kind,
                    platform=hit.platform,
                    session=hit.session,
                    turn=hit.turn,
                    day=hit.day,
                )
                for hit in store.rows_of(collection, source)
            ),
            None,
            None,
            source,
        )
        if not embedder.paid:
            embed_texts(engine, [document])
        vectors = engine.cache().get_many(
            embedder.model,
            [chunk.content_hash for chunk in document.chunks],
            dimension=embedder.dimension,
        )
        rows = [
            row_of(chunk_hash(chunk, embedder.model), chunk, vectors[chunk.content_hash])
            for chunk in document.chunks
            if chunk.content_hash in vectors
        ]
        if rows:
            store.ensure(aside, len(rows[0].embedding))
            if store.identity(aside) is None:
                store.set_identity(aside, {IDENTITY: current_identity(engine)})
            store.upsert(aside, rows)
        left += len(document.chunks) - len(rows)
    if others:
        engine.note("carried_over", documents=len(others), left_out=left or None)


def _known(log: EventLog, collection: str) -> set[str]:
    """The sources that the log has ever known in a collection."""
    rows = log.rows("SELECT source FROM documents WHERE collection = ?", (collection,))
    return {str(row["source"]) for row in rows}


def pending(reader: EventLog | Transaction, collection: str, identity: str) -> int:
    """Documents that are not in an index of this identity and are on their way, or should be."""
    row = reader.row(
        f"SELECT COUNT(*) AS n FROM documents WHERE collection = ? AND {_PENDING}",
        (collection, identity),
    )
    return int(row["n"]) if row is not None else 0


def ready(reader: EventLog | Transaction) -> list[tuple[str, float | None]]:
    """Collections whose swap is to be done, each with when; None: at once."""
    return [
        (row["collection"], row["due"])
        for row in reader.rows("SELECT collection, identity, due FROM renewals")
        if not pending(reader, row["collection"], row["identity"])
    ]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a collection has become one of another identity.

    Attributes:
        collection: Its name.
        project: A project whose documents it holds.
        old: What it held when that began; empty when that is not known.
        documents: Those that are done.
        of: How many there are.
        waits: Some wait for somebody to agree to what it costs.
        error: Why the last swap failed; empty when none did.
    """

    collection: str
    project: str
    old: str
    documents: int
    of: int
    waits: bool
    error: str

    def as_dict(self, identity: str) -> dict[str, Any]:
        """As JSON."""
        return {
            "collection": self.collection,
            "project": self.project,
            "from": self.old,
            "to": identity,
            "documents": self.documents,
            "of": self.of,
            "waits": self.waits,
            "error": self.error or None,
        }


def progress(log: EventLog, identity: str) -> list[Progress]:
    """The collections that are not wholly of an identity, as the log knows."""
    return [
        Progress(
            row["collection"],
            row["project"] or "",
            row["old"] or row["other"] or "",
            row["done"] or 0,
            row["n"],
            bool(row["waits"]),
            row["error"] or "",
        )
        for row in log.rows(
            "SELECT d.collection, MAX(d.project) AS project, COUNT(*) AS n, r.old, r.error,"
            " MAX(CASE WHEN d.identity <> ? THEN d.identity END) AS other,"
            " SUM(d.state = 'done' AND d.identity = ?) AS done,"
            f" SUM(d.state = 'open' AND COALESCE(d.error_class, '') = '{COST}') AS waits"
            " FROM documents AS d LEFT JOIN renewals AS r ON r.collection = d.collection"
            " WHERE d.state IN ('open', 'done', 'dead') GROUP BY d.collection"
            " HAVING r.collection IS NOT NULL OR other IS NOT NULL ORDER BY project",
            (identity, identity),
        )
    ]


def look(engine: Engine) -> None:
    """Queue what became ready, or lost its reason, without a document of its own moving."""
    for row in engine.log.rows("SELECT collection, identity, due FROM renewals"):
        if row["due"] and row["due"] > time.time():
            continue
        if not pending(engine.log, row["collection"], current_identity(engine)):
            with engine.log.transaction() as tx:
                tx.add_task("upsert", row["collection"])


def replay_dead(engine: Engine, *, changed_at: float | None = None) -> int:
    """Try again what died of the settings, now that they were changed.

    Args:
        engine: The engine.
        changed_at: When, in seconds since the epoch: what died later died of the present
            ones. None: just now.

    Returns:
        How many documents.
    """
    before = utc_now(changed_at)
    with engine.log.transaction() as tx:
        rows = tx.rows(
            "SELECT stream, collection, stage FROM documents WHERE state = 'dead'"
            " AND error_class IN (?, ?) AND updated < ?",
            (ErrorClass.CONFIG.value, ErrorClass.CREDENTIALS.value, before),
        )
        for row in rows:
            stage = row["stage"]
            tx.append(Event(row["stream"], EventType.REPLAYED, {"stage": stage, "by": "settings"}))
            tx.add_task(stage, row["stream"] if stage == "chunk" else row["collection"])
    return len(rows)


def check_opened(engine: Engine, collections: set[str]) -> None:
    """Know again of a renewal whose row was lost, for instance with the whole log.

    Args:
        engine: The engine; its store is open.
        collections: Those that the log knows.
    """
    store, identity = engine.store(), current_identity(engine)
    for collection in sorted(collections):
        if store.dimension(collection + NEXT) is None:
            held = _held(store, collection)
            if held.identity in ("", identity) and not held.partial:
                continue
        with engine.log.transaction() as tx:
            _note_begin(tx, collection, identity, _held(store, collection).identity)


def _live(engine: Engine, collection: str, identity: str, dimension: int) -> Live:
    """What a collection that is there holds; one that does not say is judged by the log."""
    store = engine.store()
    held = _held(store, collection)
    if held.identity:
        return Live(held.identity, dimension, held.partial)
    others = {
        row["identity"]
        for row in engine.log.rows(
            "SELECT DISTINCT identity FROM documents WHERE collection = ?"
            " AND identity IS NOT NULL AND identity <> ?",
            (collection, identity),
        )
    }
    if others and store.counts(collection):
        old = others.pop() if len(others) == 1 else ""
        return Live(old, dimension, partial=True)
    store.set_identity(collection, {IDENTITY: identity})
    return Live(identity, dimension, partial=False)


def _held(store: Store, collection: str) -> Live:
    found: Mapping[str, Any] = store.identity(collection) or {}
    return Live(str(found.get(IDENTITY) or ""), 0, bool(found.get(PARTIAL)))


def _note_begin(tx: Transaction, collection: str, identity: str, old: str) -> None:
    tx.execute(
        "INSERT INTO renewals(collection, identity, old, started) VALUES (?, ?, ?, ?)"
        " ON CONFLICT(collection) DO UPDATE SET identity = excluded.identity,"
        " old = excluded.old, started = excluded.started, attempts = 0, due = NULL, error = NULL"
        " WHERE identity <> excluded.identity OR old <> excluded.old",
        (collection, identity, old, utc_now()),
    )


def _note_end(engine: Engine, collection: str) -> None:
    with engine.log.transaction() as tx:
        tx.execute("DELETE FROM renewals WHERE collection = ?", (collection,))


def _no_meaning(dimension: int) -> Vectors:
    import numpy as np

    vector = np.zeros(dimension, np.float32)
    vector[0] = 1.0  # cosine needs a length
    return vector
