"""The direct reader: the Markdown itself, where neither the workers nor the index can be reached.

An agent's sandbox refuses sockets and writes, so that the workers cannot be asked and Milvus
Lite, which locks and logs, cannot be opened. The files can be read, and so can the cache of
their vectors: the same chunks, the same legs, the same fusion; only slower, since all of it is
cut and weighed for one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from memsearch.config.errors import MemsearchError
from memsearch.recall import freshness, scan
from memsearch.recall.freshness import Unindexed
from memsearch.recall.legs import Scope
from memsearch.recall.logview import LogView
from memsearch.recall.scan import ChunkLimits
from memsearch.sinks.bm25 import Bm25Index
from memsearch.sinks.chunker import embedding_text
from memsearch.sinks.filters import matches
from memsearch.sinks.ids import content_hash
from memsearch.sinks.language import Direction, add_up, direction
from memsearch.sinks.types import Filters, Hit, Vectors

if TYPE_CHECKING:
    from memsearch.sinks.cache import EmbeddingCache

#: Bytes of Markdown that are read at most: 50,000 pages. More is no journal.
MAX_BYTES = 200_000_000


def every_document(scope: Scope) -> list[Unindexed]:
    """All documents of a project: those in its memory, and those that the log knows."""
    documents = tuple(replace(document, indexed=None) for document in scope.documents)
    view = LogView(documents={scope.project.collection: documents})
    return list(freshness.check(scope.project, view, scope.memory.files).unindexed)


class DirectIndex:
    """Implements ``legs.Index`` on files that are read once.

    Args:
        scopes: The projects.
        model: Identity of the model, which ids and cached vectors are of.
        limits: How documents are cut.
        cache: Opens the cache of vectors for reading; not called when no vector is asked for.
    """

    def __init__(
        self,
        scopes: Sequence[Scope],
        model: str,
        limits: ChunkLimits,
        cache: Callable[[], EmbeddingCache],
    ) -> None:
        documents = [document for scope in scopes for document in every_document(scope)]
        documents.sort(key=lambda item: (-item.mtime_ns, item.path))
        self.texts = scan.read(documents, model, limits, max_bytes=MAX_BYTES)
        behind = {
            (scope.project.collection, document.source)
            for scope in scopes
            for document in scope.freshness.unindexed
        }
        self._model = model
        self._hits: dict[str, dict[str, Hit]] = {}
        #: Ids of what the index does not hold as it is now.
        self.unindexed: set[str] = set()
        for document, hits in self.texts.chunks.items():
            collection = document.project.collection
            self._hits.setdefault(collection, {}).update((hit.chunk_hash, hit) for hit in hits)
            if (collection, document.source) in behind:
                self.unindexed.update(hit.chunk_hash for hit in hits)
        self._cache = cache
        self._vectors: dict[str, Vectors] = {}
        self._keywords: dict[str, str] = {}

    def read_vectors(self, dimension: int) -> str:
        """Look up the vectors of all chunks.

        Args:
            dimension: Length that they must have.

        Returns:
            Why there are none; empty otherwise.
        """
        hashes = {
            key: content_hash(hit.content)
            for hits in self._hits.values()
            for key, hit in hits.items()
        }
        try:
            cache = self._cache()
            try:
                found = cache.get_many(self._model, hashes.values(), dimension=dimension)
            finally:
                cache.close()
        except MemsearchError as error:
            return str(error)
        self._vectors = {key: found[name] for key, name in hashes.items() if name in found}
        return "" if self._vectors or not hashes else "there is no vector of this text in the cache"

    @property
    def unplaced(self) -> frozenset[str]:
        """Ids of the chunks without a vector."""
        return frozenset(
            key for hits in self._hits.values() for key in hits if key not in self._vectors
        )

    def directions(self) -> Mapping[str, Direction]:
        """By collection, the direction between the languages, from the texts themselves."""
        found = {}
        for collection, hits in self._hits.items():
            sums = add_up(
                (embedding_text(hit.content), self._vectors[key])
                for key, hit in hits.items()
                if key in self._vectors
            )
            own = direction(sums, self._model)
            if own is not None:
                found[collection] = own
        return found

    def dimension(self, collection: str) -> int | None:
        """Unknown: only vectors of the question's length were read."""
        del collection
        return None

    def identity(self, collection: str) -> None:
        """Nothing to say: the vectors were looked up by the question's model."""
        del collection

    def ids(self, collection: str, source: str) -> set[str]:
        """The ids of one document's chunks."""
        return {key for key, hit in self._hits.get(collection, {}).items() if hit.source == source}

    def dense(self, collection: str, vector: Vectors, limit: int, filters: Filters) -> list[Hit]:
        """See ``Store.dense``."""
        import numpy as np

        hits = [
            hit
            for key, hit in self._hits.get(collection, {}).items()
            if key in self._vectors and matches(hit, filters)
        ]
        if not hits:
            return []
        cosines = np.stack([self._vectors[hit.chunk_hash] for hit in hits]) @ vector
        best = np.argsort(-cosines, kind="stable")[:limit]
        return [replace(hits[place], score=float(cosines[place])) for place in best]

    def keyword(self, collection: str, keywords: str, limit: int, filters: Filters) -> list[Hit]:
        """See ``Store.keyword``."""
        weighing = Bm25Index()
        hits = self._hits.get(collection, {})
        for key, hit in hits.items():
            if matches(hit, filters):
                if key not in self._keywords:
                    self._keywords[key] = scan.hit_keywords(hit)
                weighing.put(key, self._keywords[key])
        found = weighing.search(keywords)[:limit]
        return [replace(hits[key], score=score) for key, score in found]
