"""The two rankings that a search fuses: by meaning and by keyword, of the index or of the files."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from memsearch.config.project import Project
from memsearch.recall import scan
from memsearch.recall.freshness import Freshness
from memsearch.recall.fusion import FUSIONS, Fused, Leg, Question, in_order
from memsearch.recall.logview import Document
from memsearch.recall.scan import Scan
from memsearch.recall.scope import Memory
from memsearch.sinks.ids import content_hash
from memsearch.sinks.language import without
from memsearch.sinks.types import Filters, Hit, Vectors

#: Each leg fetches this many hits at least, ...
LEG_MIN = 30
#: ... and this many for each result that is asked for, so that folding can refill.
LEG_FACTOR = 3
#: What a digest's score is multiplied by: a month in one text holds every word, and the note
#: that says it precisely belongs before it.
DIGEST_WEIGHT = 0.8
#: Unindexed documents whose ids are looked up in the index, to know what of them it holds.
MAX_ID_LOOKUPS = 20


class Index(Protocol):
    """What is searched: a part of ``sinks.types.Store``, or the files themselves."""

    def dimension(self, collection: str) -> int | None: ...

    def ids(self, collection: str, source: str) -> set[str]: ...

    def dense(
        self, collection: str, vector: Vectors, limit: int, filters: Filters
    ) -> list[Hit]: ...

    def keyword(
        self, collection: str, keywords: str, limit: int, filters: Filters
    ) -> list[Hit]: ...


@dataclass(frozen=True, slots=True)
class Scope:
    """One project that is searched: its collection, its Markdown, and what is not indexed.

    ``documents`` are those that the log knows.
    """

    project: Project
    memory: Memory = field(default_factory=Memory)
    freshness: Freshness = field(default_factory=Freshness)
    documents: tuple[Document, ...] = ()

    @property
    def models(self) -> frozenset[str]:
        """The embedding models that its vectors are of, as far as the log knows."""
        return frozenset(document.model for document in self.documents if document.model)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as the legs take it.

    Attributes:
        terms: Its keywords, separated by spaces; may be empty.
        vector: Shape ``(dimension,)``, or None where there is none to compare with.
        literal: It holds names, codes or quotes.
        top_k: How many results are wanted.
        fusion: A name in ``fusion.FUSIONS``.
    """

    terms: str
    vector: Vectors | None
    literal: bool = False
    top_k: int = 5
    fusion: str = "standardized"

    @property
    def limit(self) -> int:
        """How many hits each leg fetches."""
        return max(LEG_MIN, LEG_FACTOR * self.top_k)


class Ranker:
    """Ranks what an index and the files behind it hold of some projects.

    Args:
        asked: The question.
        scopes: The projects.
        texts: What was read directly, since the index does not hold it as it is.
        directions: By collection, the direction between the languages that the question is
            asked without; none for those that are missing.
        unplaced: Ids that the vector leg cannot return, beside those of ``texts``.
    """

    def __init__(
        self,
        asked: Asked,
        scopes: Sequence[Scope],
        texts: Scan,
        *,
        directions: Mapping[str, Vectors] | None = None,
        unplaced: Collection[str] = (),
    ) -> None:
        self.notes: list[str] = []
        self.project_of: dict[str, Project] = {}
        #: Ids of the chunks that were ranked and that only the direct reading knows.
        self.unindexed: set[str] = set()
        self._asked = asked
        self._scopes = {scope.project.collection: scope for scope in reversed(scopes)}
        self._texts = texts
        self._directions = directions or {}
        self._unplaced = unplaced
        # Ids of the documents that were read directly, as the index holds them.
        self._held: set[str] | None = None
        # Content hashes of those documents as they are now.
        self._current = {
            (document.project.collection, document.source): {
                content_hash(hit.content) for hit in hits
            }
            for document, hits in texts.chunks.items()
        }

    def rank(self, index: Index | None, filters: Filters) -> list[Fused]:
        """Everything that either leg found, best first.

        Args:
            index: What is searched; None when only ``texts`` are.
            filters: What the search is narrowed to, inside both legs.
        """
        dense, keyword = self._legs(index, filters) if index is not None else (None, None)
        fresh = self._fresh(index, [*(dense or ()), *(keyword or ())])
        merged = scan.merge(self._asked.terms, fresh, keyword or (), filters)
        if merged:
            keyword = merged
        added = {hit.chunk_hash for hit in merged} & {hit.chunk_hash for hit in fresh}
        self.unindexed |= added
        question = Question(
            self._asked.limit, self._asked.literal, frozenset(added.union(self._unplaced))
        )
        fused = FUSIONS[self._asked.fusion](dense, keyword, question)
        return in_order(weighed(item) for item in fused)

    def _legs(self, index: Index, filters: Filters) -> tuple[Leg, Leg]:
        asked = self._asked
        dense: list[list[Hit]] = []
        keyword: list[list[Hit]] = []
        for collection, scope in self._scopes.items():
            vector = self._vector_for(index, collection)
            if vector is not None:
                hits = index.dense(collection, vector, asked.limit, filters)
                dense.append(self._still_true(scope, hits))
            if asked.terms:
                hits = index.keyword(collection, asked.terms, asked.limit, filters)
                keyword.append(self._still_true(scope, hits))
        # A leg that could not run is None, so that the other one is scored alone.
        return (
            self._best(dense) if dense else None,
            self._best(keyword) if keyword else None,
        )

    def _vector_for(self, index: Index, collection: str) -> Vectors | None:
        vector = self._asked.vector
        if vector is None:
            return None
        dimension = index.dimension(collection)
        if dimension not in (None, len(vector)):
            note = (
                f"Searched by keywords alone: the index holds vectors of {dimension} numbers and"
                f" the model of now gives {len(vector)}; memsearch index renews it"
            )
            if note not in self.notes:
                self.notes.append(note)
            return None
        direction = self._directions.get(collection)
        if direction is None or len(direction) != len(vector):
            return vector
        return without(vector, direction)

    def _still_true(self, scope: Scope, hits: Iterable[Hit]) -> list[Hit]:
        """The hits whose text is still in the Markdown, as far as that is known."""
        kept = []
        for hit in hits:
            if hit.source in scope.freshness.gone:
                continue
            current = self._current.get((scope.project.collection, hit.source))
            if current is not None and content_hash(hit.content) not in current:
                continue
            self.project_of.setdefault(hit.chunk_hash, scope.project)
            kept.append(hit)
        return kept

    def _best(self, parts: list[list[Hit]]) -> list[Hit]:
        merged = heapq.merge(*parts, key=lambda hit: -hit.score)
        return list(merged)[: self._asked.limit]

    def _fresh(self, index: Index | None, found: Iterable[Hit]) -> list[Hit]:
        """The chunks that were read directly and that the index does not hold."""
        if self._held is None:
            self._held = set()
            for document in list(self._texts.chunks)[:MAX_ID_LOOKUPS] if index else ():
                assert index is not None
                self._held |= index.ids(document.project.collection, document.source)
        found = list(found)
        known = {hit.chunk_hash for hit in found} | self._held
        texts = {
            (self.project_of[hit.chunk_hash].collection, hit.source, hit.content) for hit in found
        }
        return [
            hit
            for document, hits in self._texts.chunks.items()
            for hit in hits
            if hit.chunk_hash not in known
            and (document.project.collection, hit.source, hit.content) not in texts
        ]


def weighed(item: Fused) -> Fused:
    """A digest's score, lowered."""
    return replace(item, score=item.score * DIGEST_WEIGHT) if item.hit.kind == "digest" else item
