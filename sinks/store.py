"""The shadow index in Milvus: Milvus Lite in a folder, a Milvus server or Zilliz Cloud.

All three go through the same client and schema. What differs is that Milvus Lite has one owner
at a time (``store_lock``), one caller at a time (a flush hides rows while it runs), keeps new
rows where searching them is slow until they are flushed, and scores keywords per file, in place
of which ``bm25`` is used. A server has none of these.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home, default_milvus_path, untilde, user_home
from memsearch.sinks import filters as where
from memsearch.sinks import milvus_schema as schema
from memsearch.sinks.bm25 import Bm25Index
from memsearch.sinks.milvus_errors import foreign, is_server, shown
from memsearch.sinks.store_connection import Connection
from memsearch.sinks.store_lock import OnWait
from memsearch.sinks.types import Filters, Hit, Row, Vectors

if TYPE_CHECKING:
    from memsearch.sinks.types import Store

#: Rows and bytes of one request. Larger ones are no faster.
BATCH_ROWS, BATCH_BYTES = 256, 4 * 1024 * 1024

#: Ids in one expression.
BATCH_IDS = 500

#: Rows in memory at which Milvus Lite writes them into a file. Each costs a search 0.1 ms.
FLUSH_ROWS = 512

#: Most hits that a server returns of one search.
MAX_HITS = 16_384

#: Rows in one page of a whole collection, on a server.
PAGE_ROWS = 2000

#: How many of the best hits of the keyword leg, in limits, are tried on the filter, one group
#: after the other, before all rows are.
LOOKS = (2, 16)

#: Endings of the collections that stand beside one while it is built anew and swapped.
NEXT, PREVIOUS = "__next", "__prev"


class MilvusStore:
    """Implements ``Store``; thread-safe; opened at the first call, and again after ``close``.

    Args:
        uri: Path of a Milvus Lite folder, or ``http://``, ``https://``, ``tcp://`` of a server.
        token: Token of a server, or ``user:password``.
        lock_path: Lock file that processes take turns at; None for none. Not used for servers.
        timeout: Seconds for connecting (8 at most) and for each reading call to a server.
        wait: Seconds to wait for another process to let go of Milvus Lite.
        on_wait: Asked while waiting, with the seconds waited; True gives up at once.
    """

    def __init__(
        self,
        uri: str,
        token: str = "",
        *,
        lock_path: str | None = None,
        timeout: float = 10.0,
        wait: float = 10.0,
        on_wait: OnWait | None = None,
    ) -> None:
        self.uri = uri
        self._milvus = Connection(
            uri,
            token,
            lock_path=lock_path,
            timeout=timeout,
            wait=wait,
            on_wait=on_wait,
            on_change=self._forget_all,
        )
        #: Length of the vectors of the collections that were looked at since the opening.
        self._dimensions: dict[str, int] = {}
        #: Lite: what collections say of themselves, as text.
        self._identities: dict[str, str] = {}
        #: Lite: the keyword indexes that were asked for since the opening.
        self._keywords: dict[str, Bm25Index] = {}
        #: Lite: rows written since the last flush.
        self._unflushed: Counter[str] = Counter()

    def __enter__(self) -> MilvusStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- collections -----------------------------------------------------------------------

    def ensure(self, collection: str, dimension: int) -> None:
        """Create the collection if it is missing, and what a killed process left undone.

        Args:
            collection: Its name.
            dimension: Length of the vectors.

        Raises:
            MemsearchError: ``CONFIG`` when the collection is another tool's or holds vectors of
                another length; see ``Store`` for the others.
        """
        schema.check_name(collection)
        with self._milvus.using(writes=True) as client:
            if self._look(client, collection, heal=True) is None:
                self._create(client, collection, dimension)
            found = self._dimensions[collection]
        if found != dimension:
            raise MemsearchError(
                f"the collection {collection} holds vectors of {found} numbers,"
                f" the model gives {dimension}",
                kind=ErrorClass.CONFIG,
                hint="the model was changed: `memsearch index` makes the index anew",
            )

    def exists(self, collection: str) -> bool:
        """Whether there is such a collection of ours.

        Raises:
            MemsearchError: ``CONFIG`` when it is another tool's; see ``Store`` for the others.
        """
        return self.dimension(collection) is not None

    def dimension(self, collection: str) -> int | None:
        """Length of the collection's vectors; None when there is no such collection."""
        schema.check_name(collection)
        with self._milvus.using() as client:
            return self._look(client, collection)

    def collections(self) -> list[str]:
        """The names of all collections, also of other tools'."""
        with self._milvus.using() as client:
            if self._milvus.lite is not None:
                return self._milvus.lite.names()
            return sorted(client.list_collections(timeout=self._milvus.seconds()))

    def drop(self, collection: str) -> None:
        """Drop the collection, damaged or not; a missing one is no error.

        Raises:
            MemsearchError: ``CONFIG`` when it is another tool's; see ``Store`` for the others.
        """
        schema.check_name(collection)
        with self._milvus.using(writes=True) as client:
            for name in (collection, collection + NEXT, collection + PREVIOUS):
                self._drop(client, name)

    def swap(self, collection: str) -> None:
        """Put the collection built aside (its name and ``NEXT``) in place of the old one.

        Two renames and a drop. A process killed between them leaves what the next call for this
        collection, of whatever kind, finishes.

        Raises:
            MemsearchError: ``BAD_REQUEST`` when nothing was built aside; see ``Store``.
        """
        schema.check_name(collection)
        with self._milvus.using(writes=True) as client:
            if self._look(client, collection + NEXT) is None:
                raise MemsearchError(
                    f"no collection was built to take the place of {collection}",
                    kind=ErrorClass.BAD_REQUEST,
                )
            if self._has(client, collection):
                self._refuse_foreign(client, collection)
                self._drop(client, collection + PREVIOUS)
                self._rename(client, collection, collection + PREVIOUS)
            self._rename(client, collection + NEXT, collection)
            self._drop(client, collection + PREVIOUS)

    def identity(self, collection: str) -> dict[str, Any] | None:
        """What ``set_identity`` stored; None when there is nothing, or no such collection."""
        schema.check_name(collection)
        with self._milvus.using() as client:
            if self._look(client, collection) is None:
                return None
            # Nobody else changes what Milvus Lite holds. Of a server each search asks anew.
            text = self._identities.get(collection) if self._milvus.is_lite else None
            if text is None:
                found = self._describe(client, collection)["properties"]
                text = str(found.get(schema.IDENTITY_PROPERTY) or "")
                self._identities[collection] = text
        with contextlib.suppress(ValueError):
            value = json.loads(text)
            return value if isinstance(value, dict) else None
        return None

    def set_identity(self, collection: str, identity: Mapping[str, Any]) -> None:
        """Store with the collection what its rows were made by, durably.

        Args:
            collection: It must exist.
            identity: Whatever JSON can hold.
        """
        schema.check_name(collection)
        text = json.dumps(dict(identity), ensure_ascii=False, sort_keys=True)
        with self._milvus.using(writes=True) as client:
            self._require(client, collection)
            self._identities.pop(collection, None)
            client.alter_collection_properties(
                collection,
                {schema.IDENTITY_PROPERTY: text},
                timeout=self._milvus.seconds(writes=True),
            )

    # -- rows ------------------------------------------------------------------------------

    def upsert(self, collection: str, rows: list[Row]) -> None:
        """Write rows by their id, in batches; of rows with the same id the last one counts.

        Nothing is written when a row does not fit. When a batch fails, those before it are
        written.

        Raises:
            MemsearchError: ``BAD_REQUEST`` naming the field that does not fit; see ``Store``.
        """
        schema.check_name(collection)
        if not rows:
            return
        with self._milvus.using() as client:
            dimension = self._require(client, collection)
        data = {row.chunk_hash: schema.row_data(row, dimension) for row in rows}
        for batch in schema.batches(list(data.values()), BATCH_ROWS, BATCH_BYTES):
            # Others may have their turn between two batches.
            with self._milvus.using(writes=True) as client:
                self._require(client, collection)
                client.upsert(collection, batch, timeout=self._milvus.seconds(writes=True))
                if self._milvus.lite is not None:
                    index = self._keywords.get(collection)
                    if index is not None:
                        for row in batch:
                            index.put(row[schema.ID], row[schema.KEYWORDS])
                    self._written(collection, len(batch))

    def delete(self, collection: str, chunk_hashes: list[str]) -> None:
        """Delete rows by their ids, in batches; ids that are not there are no error."""
        schema.check_name(collection)
        ids = [schema.check_hash(chunk_hash) for chunk_hash in chunk_hashes]
        for start in range(0, len(ids), BATCH_IDS):
            batch = ids[start : start + BATCH_IDS]
            with self._milvus.using(writes=True) as client:
                if self._look(client, collection) is None:
                    return
                client.delete(
                    collection,
                    filter=where.any_of(schema.ID, batch),
                    timeout=self._milvus.seconds(writes=True),
                )
                if self._milvus.lite is not None:
                    if collection in self._keywords:
                        self._keywords[collection].remove(batch)
                    self._written(collection, len(batch))

    def ids(self, collection: str, source: str) -> set[str]:
        """The ids of one document's rows."""
        schema.check_name(collection)
        with self._milvus.using() as client:
            if self._look(client, collection) is None:
                return set()
            rows = self._scan(client, collection, where.equals("source", source), [schema.ID])
        return {row[schema.ID] for row in rows}

    def rows_of(self, collection: str, source: str) -> list[Hit]:
        """All rows of one document, with score 1."""
        schema.check_name(collection)
        with self._milvus.using() as client:
            if self._look(client, collection) is None:
                return []
            fields = [schema.ID, *schema.HIT_FIELDS]
            rows = self._scan(client, collection, where.equals("source", source), fields)
        found = {row[schema.ID]: row for row in rows}
        return [schema.hit(name, 1.0, row) for name, row in found.items()]

    def counts(self, collection: str) -> dict[str, int]:
        """Rows per source, of the whole collection."""
        schema.check_name(collection)
        with self._milvus.using() as client:
            if self._look(client, collection) is None:
                return {}
            rows = self._scan(client, collection, "", [schema.ID, "source"])
        # By id: after a kill between a flush's two steps Lite may hold a row twice.
        return dict(Counter({row[schema.ID]: row["source"] for row in rows}.values()))

    def get(self, collection: str, chunk_hash: str) -> Hit | None:
        """One row by its id, or by a prefix of at least 8 hex digits when it is unique.

        Returns:
            The row with score 1; None when there is none.

        Raises:
            MemsearchError: ``BAD_REQUEST`` for what is no id, and for the beginning of several;
                see ``Store``.
        """
        schema.check_name(collection)
        key = schema.check_hash(chunk_hash, shortest=8)
        with self._milvus.using() as client:
            if self._look(client, collection) is None:
                return None
            for condition in (where.any_of(schema.ID, [key]), where.begins(schema.ID, key)):
                rows = client.query(
                    collection,
                    filter=condition,
                    output_fields=[schema.ID, *schema.HIT_FIELDS],
                    # A row may be there twice, see ``counts``.
                    limit=3,
                    timeout=self._milvus.seconds(),
                )
                found = {row[schema.ID]: row for row in rows}
                if len(found) == 1:
                    ((name, row),) = found.items()
                    return schema.hit(name, 1.0, row)
                if found:
                    raise MemsearchError(
                        f"Several chunks begin with {key}",
                        kind=ErrorClass.BAD_REQUEST,
                        hint="give more digits: " + ", ".join(sorted(found)),
                    )
        return None

    # -- search ----------------------------------------------------------------------------

    def dense(self, collection: str, vector: Vectors, limit: int, filters: Filters) -> list[Hit]:
        """Nearest rows by cosine, best first; an absent or empty collection gives [].

        Args:
            collection: Its name.
            vector: Shape ``(dimension,)``.
            limit: Most rows to return.
            filters: Applied before ranking.

        Returns:
            Hits with the cosine, -1 to 1, as their score.
        """
        schema.check_name(collection)
        condition = where.expression(filters)
        if limit <= 0:
            return []
        with self._milvus.using() as client:
            dimension = self._look(client, collection)
            if dimension is None:
                return []
            query = schema.check_vector(vector, dimension)
            return self._search(client, collection, schema.VECTOR, query, limit, condition)

    def keyword(self, collection: str, keywords: str, limit: int, filters: Filters) -> list[Hit]:
        """Best rows by BM25, best first; no keywords, or nothing to search in, give [].

        Args:
            collection: Its name.
            keywords: Already run through ``sinks.keywords``.
            limit: Most rows to return.
            filters: Applied before ranking.

        Returns:
            Hits with their BM25 score, greater than 0.

        Raises:
            MemsearchError: ``CONFIG`` when the server is too old for it; see ``Store``.
        """
        schema.check_name(collection)
        condition = where.expression(filters)
        if limit <= 0 or not keywords.strip():
            return []
        with self._milvus.using() as client:
            if self._look(client, collection) is None:
                return []
            if self._milvus.lite is not None:
                return self._keyword_on_lite(client, collection, keywords, limit, filters)
            if not self._milvus.bm25:
                raise MemsearchError(
                    f"the Milvus server {shown(self.uri)} is too old to search by keyword",
                    kind=ErrorClass.CONFIG,
                    hint="Milvus 2.5 or later can; searching by meaning works",
                )
            hits = self._search(client, collection, schema.SPARSE, keywords, limit, condition)
            return [hit for hit in hits if hit.score > 0]

    # -- opening and closing ---------------------------------------------------------------

    def close(self) -> None:
        """Let go of the database, so that another process can open it at once."""
        self._milvus.close()

    def notes(self) -> tuple[str, ...]:
        """The last warnings that Milvus Lite logged, for ``doctor``; none while it is closed."""
        lite = self._milvus.lite
        return lite.notes if lite is not None else ()

    @property
    def lock_holder(self) -> int | None:
        """The process that has the store open, as the lock file tells it."""
        return self._milvus.lock_holder

    # -- inside a turn ---------------------------------------------------------------------

    def _look(self, client: Any, collection: str, *, heal: bool = False) -> int | None:
        """Open and load a collection, once.

        Args:
            client: The client.
            collection: Its name.
            heal: Make what is missing of it. Without it a collection whose making was
                interrupted, which has no rows yet, counts as missing: reading never writes.

        Returns:
            Length of its vectors; None when there is none.
        """
        if collection in self._dimensions:
            return self._dimensions[collection]
        if not self._has(client, collection) and not self._finish_swap(client, collection):
            return None
        self._refuse_foreign(client, collection)
        if self._milvus.lite is not None:
            self._milvus.lite.open(collection)
        elif not self._load(client, collection, heal=heal):
            return None
        dimension = schema.dimension_of(self._describe(client, collection))
        self._dimensions[collection] = dimension
        return dimension

    def _load(self, client: Any, collection: str, *, heal: bool) -> bool:
        """Load a server's collection, which needs its indexes for it; whether it has them."""
        wanted = schema.indexes(client, bm25=self._milvus.bm25, uri=self.uri)
        there = client.list_indexes(collection, timeout=self._milvus.seconds())
        for field in wanted.keys() - set(there):
            if not heal:
                return False
            client.create_index(
                collection, wanted[field], timeout=self._milvus.seconds(writes=True)
            )
        client.load_collection(collection, timeout=self._milvus.seconds(writes=True))
        return True

    def _require(self, client: Any, collection: str) -> int:
        dimension = self._look(client, collection, heal=True)
        if dimension is None:
            raise MemsearchError(
                f"there is no collection {collection}",
                kind=ErrorClass.SERVER,  # dropped since it was made: another try makes it again
                hint="`memsearch index` makes it",
            )
        return dimension

    def _has(self, client: Any, collection: str) -> bool:
        if self._milvus.lite is not None:
            return self._milvus.lite.has(collection)
        return bool(client.has_collection(collection, timeout=self._milvus.seconds()))

    def _describe(self, client: Any, collection: str) -> Any:
        return client.describe_collection(collection, timeout=self._milvus.seconds())

    def _refuse_foreign(self, client: Any, collection: str) -> None:
        if self._milvus.lite is not None:
            names = self._milvus.lite.field_names(collection)
            ours = names is None or schema.has_our_fields(names)
        else:
            ours = schema.is_ours(self._describe(client, collection))
        if not ours:
            raise foreign(collection)

    def _create(self, client: Any, collection: str, dimension: int) -> None:
        if self._milvus.lite is not None:
            self._milvus.lite.sweep(collection)
        try:
            client.create_collection(
                collection,
                schema=schema.build(client, dimension, bm25=self._milvus.bm25),
                # Whoever writes must find it at once, ``ids`` most of all.
                consistency_level="Strong",
                timeout=self._milvus.seconds(writes=True),
            )
        except Exception:
            # Somebody else may have made it on the same server just now.
            if self._milvus.is_lite or not self._has(client, collection):
                raise
        self._look(client, collection, heal=True)

    def _drop(self, client: Any, collection: str) -> None:
        if self._has(client, collection):
            self._refuse_foreign(client, collection)
            try:
                client.drop_collection(collection, timeout=self._milvus.seconds(writes=True))
            except Exception:
                # Somebody else may have dropped it on the same server just now.
                if self._milvus.is_lite or self._has(client, collection):
                    raise
        if self._milvus.lite is not None:
            self._milvus.lite.sweep(collection)
        self._forget(collection)

    def _rename(self, client: Any, old: str, new: str) -> None:
        try:
            client.rename_collection(old, new, timeout=self._milvus.seconds(writes=True))
        except Exception:
            # On a server whoever finds a swap undone finishes it, and two may at once.
            if self._milvus.is_lite or not self._has(client, new):
                raise
        self._forget(old)
        self._forget(new)

    def _forget_all(self) -> None:
        self._dimensions.clear()
        self._identities.clear()
        self._keywords.clear()
        self._unflushed.clear()

    def _forget(self, collection: str) -> None:
        if self._milvus.lite is not None:
            self._milvus.lite.forget(collection)
        self._dimensions.pop(collection, None)
        self._identities.pop(collection, None)
        self._keywords.pop(collection, None)
        self._unflushed.pop(collection, None)

    def _finish_swap(self, client: Any, collection: str) -> bool:
        """Finish a swap whose process was killed. Whether the collection is there now.

        The old one is renamed only when the new one is whole, so the one goes with the other.
        """
        if not self._has(client, collection + PREVIOUS):
            return False
        whole = self._has(client, collection + NEXT)
        self._rename(client, collection + (NEXT if whole else PREVIOUS), collection)
        if whole:
            self._drop(client, collection + PREVIOUS)
        return True

    def _written(self, collection: str, rows: int) -> None:
        assert self._milvus.lite is not None
        self._unflushed[collection] += rows
        if self._unflushed[collection] >= FLUSH_ROWS:
            self._milvus.lite.flush(collection)
            del self._unflushed[collection]

    def _scan(
        self, client: Any, collection: str, condition: str, fields: list[str]
    ) -> list[dict[str, Any]]:
        """All rows that a condition holds for, however many."""
        if self._milvus.lite is not None:
            # No limit, so one pass over the collection where each page would be one.
            return list(
                client.query(
                    collection,
                    filter=condition,
                    output_fields=fields,
                    timeout=self._milvus.seconds(),
                )
            )
        pages = client.query_iterator(
            collection,
            filter=condition,
            output_fields=fields,
            batch_size=PAGE_ROWS,
            consistency_level="Strong",
            timeout=self._milvus.seconds(),
        )
        rows: list[dict[str, Any]] = []
        try:
            while page := pages.next():
                rows.extend(page)
        finally:
            pages.close()
        return rows

    def _search(
        self,
        client: Any,
        collection: str,
        field: str,
        query: Vectors | str,
        limit: int,
        condition: str,
    ) -> list[Hit]:
        asked = min(limit, MAX_HITS)
        while True:
            (answer,) = client.search(
                collection,
                data=[query],
                anns_field=field,
                search_params={"metric_type": schema.METRICS[field]},
                limit=asked,
                filter=condition,
                output_fields=schema.HIT_FIELDS,
                timeout=self._milvus.seconds(),
            )
            hits: dict[str, Hit] = {}
            for found in answer:
                key = found.get(schema.ID) or found["id"]
                # Milvus Lite, as a server too, gives BM25 as a negative distance.
                score = float(found["distance"])
                score = abs(score) if field == schema.SPARSE else score
                hits.setdefault(key, schema.hit(key, score, found["entity"]))
            # A row may be there twice, see ``counts``: then ask for more.
            if len(hits) >= limit or len(answer) < asked or asked >= MAX_HITS:
                return list(hits.values())[:limit]
            asked = min(asked * 2, MAX_HITS)

    def _keyword_on_lite(
        self, client: Any, collection: str, keywords: str, limit: int, filters: Filters
    ) -> list[Hit]:
        index = self._keywords.get(collection)
        if index is None:
            index = Bm25Index()
            for row in self._scan(client, collection, "", [schema.ID, schema.KEYWORDS]):
                index.put(row[schema.ID], row[schema.KEYWORDS])
            self._keywords[collection] = index
        ranked = index.search(keywords)
        hits: list[Hit] = []
        tried = 0
        for look in LOOKS:
            group = ranked[tried : limit * look]
            tried += len(group)
            hits += (
                hit for hit in self._rows(client, collection, group) if where.matches(hit, filters)
            )
            if len(hits) >= limit or tried == len(ranked):
                return hits[:limit]
        # The filter lets few pass: ask which rows it does let pass.
        there = self._scan(client, collection, where.expression(filters), [schema.ID])
        passing = {row[schema.ID] for row in there}
        best = islice((pair for pair in ranked if pair[0] in passing), limit)
        return self._rows(client, collection, list(best))

    def _rows(self, client: Any, collection: str, ranked: list[tuple[str, float]]) -> list[Hit]:
        """Rows by their ids, in order.

        No other condition may stand beside the ids: Lite looks up ids alone by themselves, and
        with a condition it goes through the whole collection (40 ms at 10,000 rows).
        """
        if not ranked:
            return []
        found = client.query(
            collection,
            filter=where.any_of(schema.ID, [key for key, _ in ranked]),
            output_fields=[schema.ID, *schema.HIT_FIELDS],
            timeout=self._milvus.seconds(),
        )
        rows = {row[schema.ID]: row for row in found}
        return [schema.hit(key, score, rows[key]) for key, score in ranked if key in rows]


class MilvusSettings(Protocol):
    """The section ``milvus`` of the settings."""

    @property
    def uri(self) -> str: ...

    @property
    def token(self) -> str: ...


def index_uri(settings: MilvusSettings, home: Home, environ: Mapping[str, str]) -> str:
    """Where the index is: a server's address as it stands, or the absolute path of a folder."""
    uri = settings.uri
    if is_server(uri):
        return uri
    if not uri:
        return default_milvus_path(home)
    return os.path.join(home.root, untilde(uri, user_home(environ)))


def has_index(settings: MilvusSettings, home: Home, environ: Mapping[str, str]) -> bool:
    """Whether there may be an index, told without opening it; true for every server."""
    uri = index_uri(settings, home, environ)
    return is_server(uri) or os.path.isdir(os.path.join(uri, "collections"))


def open_store(
    settings: MilvusSettings,
    home: Home,
    environ: Mapping[str, str],
    *,
    timeout: float = 10.0,
    wait: float = 10.0,
    on_wait: OnWait | None = None,
) -> Store:
    """The store that the settings name. Nothing is opened before the first call.

    Raises:
        MemsearchError: ``CREDENTIALS`` when the token cannot be resolved.
    """
    from memsearch.config.credentials import resolve_secret

    return MilvusStore(
        index_uri(settings, home, environ),
        resolve_secret(settings.token, home, environ),
        lock_path=home.store_lock,
        timeout=timeout,
        wait=wait,
        on_wait=on_wait,
    )
