"""The two rankings that a search fuses: by meaning and by keyword, of the index or of the files."""

from __future__ import annotations

import heapq
import time
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from statistics import fmean, pstdev
from typing import Any, Protocol

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.project import Project
from memsearch.recall import scan
from memsearch.recall.freshness import Freshness
from memsearch.recall.fusion import FLAT, FUSIONS, Fused, Leg, Question, in_order
from memsearch.recall.logview import Document, model_of
from memsearch.recall.scan import Scan
from memsearch.recall.scope import Memory
from memsearch.sinks.chunker import embedding_text
from memsearch.sinks.ids import content_hash
from memsearch.sinks.language import Direction, is_chinese, without
from memsearch.sinks.types import IDENTITY, PARTIAL, Filters, Hit, Vectors

#: Each leg fetches this many hits at least, ...
LEG_MIN = 30
#: ... and this many for each result that is asked for, so that folding can refill.
LEG_FACTOR = 3
#: With two languages the vector leg fetches this many times as much, so that there is as much
#: of each.
LANGUAGES_FACTOR = 2
#: Hits of one language below which they are measured by those of the other.
SMALL_GROUP = 6
#: What a digest's score is multiplied by: a month in one text holds every word, and the note
#: that says it precisely belongs before it.
DIGEST_WEIGHT = 0.8
#: How often a collection that another one takes the name of is looked at again.
MAX_LOOKS = 3
#: Seconds between two such looks.
LOOK_SECONDS = 0.2
#: Unindexed documents whose ids are looked up in the index, to know what of them it holds.
MAX_ID_LOOKUPS = 20


class Index(Protocol):
    """What is searched: a part of ``sinks.types.Store``, or the files themselves."""

    def dimension(self, collection: str) -> int | None: ...

    def identity(self, collection: str) -> Mapping[str, Any] | None: ...

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
        text: As it was asked.
        terms: Its keywords, separated by spaces; may be empty.
        vector: Shape ``(dimension,)``, or None where there is none to compare with.
        literal: It holds names, codes or quotes.
        top_k: How many results are wanted.
        fusion: A name in ``fusion.FUSIONS``.
        model: Identity of the model that the vector is of; empty when it is not known.
    """

    text: str
    terms: str
    vector: Vectors | None
    literal: bool = False
    top_k: int = 5
    fusion: str = "standardized"
    model: str = ""

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
        directions: Mapping[str, Direction] | None = None,
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
        # Workers may be writing. A chunk that came into the index behind the legs, or went
        # before them, is one that they could not return: it was there both times, or not.
        held = self._held(index)
        dense, keyword = self._legs(index, filters) if index is not None else (None, None)
        if held:
            held &= self._held(index)
        fresh = self._fresh(held, [*(dense or ()), *(keyword or ())])
        merged = scan.merge(self._asked.terms, fresh, keyword or (), filters)
        if merged:
            keyword = merged
        added = {hit.chunk_hash for hit in merged} & {hit.chunk_hash for hit in fresh}
        self.unindexed |= added
        cosines = {hit.chunk_hash: hit.score for hit in dense or ()}
        foreign: frozenset[str] = frozenset()
        if dense is not None and self._directions:
            dense = by_language(dense, self._asked.limit)
            foreign = in_another_language(self._asked.text, [*dense, *(keyword or ())])
        question = Question(
            limit=self._asked.limit,
            literal=self._asked.literal,
            unplaced=frozenset(added.union(self._unplaced)),
            foreign=foreign,
            cosines=cosines,
        )
        fused = FUSIONS[self._asked.fusion](dense, keyword, question)
        return in_order(weighed(item) for item in fused)

    def _legs(self, index: Index, filters: Filters) -> tuple[Leg, Leg]:
        asked = self._asked
        dense: list[list[Hit]] = []
        keyword: list[list[Hit]] = []
        for collection, scope in self._scopes.items():
            near, said = self._look(index, collection, filters)
            if near is not None:
                dense.append(self._still_true(scope, near))
            if said is not None:
                keyword.append(self._still_true(scope, said))
        # A leg that could not run is None, so that the other one is scored alone.
        return (
            best_of(dense, self._dense_limit) if dense else None,
            best_of(keyword, asked.limit) if keyword else None,
        )

    def _look(
        self, index: Index, collection: str, filters: Filters
    ) -> tuple[list[Hit] | None, list[Hit] | None]:
        """Both legs of one collection, of one and the same state of it.

        Another collection may take its name at any moment, one of another model: then what
        was found is thrown away.
        """
        said: list[Hit] | None = None
        for look in range(1, MAX_LOOKS + 1):
            near: list[Hit] | None = None
            try:
                held = index.identity(collection)
                vector = self._vector_for(index, collection, held)
                if vector is not None:
                    near = index.dense(collection, vector, self._dense_limit, filters)
                said = self._keyword(index, collection, filters, alone=near is None)
                if index.identity(collection) == held:
                    return near, said
            except MemsearchError as error:
                # On a server there is a moment at which nothing has the name.
                if error.kind is not ErrorClass.SERVER or look == MAX_LOOKS:
                    raise
                time.sleep(LOOK_SECONDS)
        return None, said

    def _keyword(
        self, index: Index, collection: str, filters: Filters, *, alone: bool
    ) -> list[Hit] | None:
        """The keyword leg; None where it cannot run: beside the other one that is no fault."""
        asked = self._asked
        if not asked.terms:
            return None
        try:
            return index.keyword(collection, asked.terms, asked.limit, filters)
        except MemsearchError as error:
            if alone or error.kind is not ErrorClass.CONFIG:
                raise
            self._note(f"Searched by meaning alone: {error}")
            return None

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    @property
    def _dense_limit(self) -> int:
        return self._asked.limit * (LANGUAGES_FACTOR if self._directions else 1)

    def _vector_for(
        self, index: Index, collection: str, held: Mapping[str, Any] | None
    ) -> Vectors | None:
        """The question's vector, if what the collection holds can be compared with it."""
        vector = self._asked.vector
        if vector is None:
            return None
        why, command = "", "memsearch index"
        model = model_of(str((held or {}).get(IDENTITY) or ""))
        dimension = index.dimension(collection)
        if held is not None and held.get(PARTIAL):
            why = "some of the index has no vectors yet"
        elif model and self._asked.model and model != self._asked.model:
            why = f"the index is of {model}, the model of now is {self._asked.model}"
        elif dimension not in (None, len(vector)):
            why = (
                f"the index holds vectors of {dimension} numbers and the model of now gives"
                f" {len(vector)}"
            )
            command += " --force"  # under the same name: nothing else tells that it changed
        if why:
            self._note(f"Searched by keywords alone: {why}; {command} renews it")
            return None
        direction = self._directions.get(collection)
        if direction is None or len(direction.vector) != len(vector):
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

    def _held(self, index: Index | None) -> set[str]:
        """Ids of the documents that were read directly, as the index holds them now."""
        held: set[str] = set()
        if index is not None:
            for document in list(self._texts.chunks)[:MAX_ID_LOOKUPS]:
                held |= index.ids(document.project.collection, document.source)
        return held

    def _fresh(self, held: Set[str], found: Sequence[Hit]) -> list[Hit]:
        """The chunks that were read directly and that the index does not hold."""
        known = {hit.chunk_hash for hit in found} | held
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


def best_of(parts: Sequence[Sequence[Hit]], limit: int) -> list[Hit]:
    """The best hits of several rankings on one scale, best first."""
    return list(heapq.merge(*parts, key=lambda hit: -hit.score))[:limit]


def by_language(hits: Sequence[Hit], limit: int) -> list[Hit]:
    """The vector leg in the order in which its hits stand out among those of their language.

    Without its own language a question is as near to the texts of either on average. But the
    model tells texts in the question's language apart better, so that their best ones, right
    or wrong, are still nearer than the right one in another. Each is therefore standardised
    over the hits of its language (mean 0, deviation 1). A language with few hits has no
    distribution of its own: they are as many as the other's texts let through, so they are
    measured by the other's.

    Args:
        hits: Best first.
        limit: Most hits of one language.

    Returns:
        At most twice ``limit``, with the standard score as score.
    """
    groups: dict[bool | None, list[Hit]] = {}
    for hit in hits:
        group = groups.setdefault(is_chinese(embedding_text(hit.content)), [])
        if len(group) < limit:
            group.append(hit)
    largest: Sequence[Hit] = max(groups.values(), key=len, default=[])
    if len(largest) < SMALL_GROUP:
        largest = hits  # there are few texts at all
    return best_of(
        [
            standardised(group, group if len(group) >= SMALL_GROUP else largest)
            for group in groups.values()
        ],
        len(hits),
    )


def in_another_language(question: str, hits: Iterable[Hit]) -> frozenset[str]:
    """Ids of the hits that are Chinese where the question is not, or the other way round."""
    asked = is_chinese(question)
    if asked is None:
        return frozenset()
    return frozenset(
        hit.chunk_hash for hit in hits if is_chinese(embedding_text(hit.content)) is (not asked)
    )


def standardised(hits: Sequence[Hit], among: Sequence[Hit]) -> list[Hit]:
    """Hits with their standard score among others (or themselves) as score.

    Only the best ``LEG_MIN`` of the others count, so that the order does not depend on how
    many are asked for.
    """
    scores = [hit.score for hit in among[:LEG_MIN]]
    mean = fmean(scores)
    deviation = pstdev(scores, mean)
    if deviation <= FLAT:
        return [replace(hit, score=0.0) for hit in hits]
    return [replace(hit, score=(hit.score - mean) / deviation) for hit in hits]
