"""Search: by meaning and by keyword, fused, without doubles, and honest about its limits."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.project import Project
from memsearch.recall import freshness, scan
from memsearch.recall.dates import day_text, local_today
from memsearch.recall.dedupe import Folded, fold
from memsearch.recall.filters import make_filters
from memsearch.recall.freshness import Freshness, Unindexed
from memsearch.recall.fusion import FUSIONS, Fused, Leg, in_order, place_score
from memsearch.recall.logview import LogView
from memsearch.recall.requests import (
    MAX_QUERY_CHARS,
    MAX_TOP_K,
    flag_of,
    number_of,
    text_of,
    texts_of,
)
from memsearch.recall.scan import ChunkLimits, Scan
from memsearch.recall.scope import Memory, Setting, memory_of, setting_of
from memsearch.sinks.ids import content_hash
from memsearch.sinks.keywords import query_keywords
from memsearch.sinks.types import Embedder, Filters, Hit, Store, Vectors

if TYPE_CHECKING:
    from memsearch.recall.access import Access

#: Each leg fetches this many hits at least, ...
LEG_MIN = 30
#: ... and this many for each result that is asked for, so that folding can refill.
LEG_FACTOR = 3
#: What a digest's score is multiplied by: a month in one text holds every word, and the note
#: that says it precisely belongs before it.
DIGEST_WEIGHT = 0.8
#: Unindexed documents whose ids are looked up in the index, to know what of them it holds.
MAX_ID_LOOKUPS = 20


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How a search is done.

    Attributes:
        top_k: How many different results at most.
        filters: What it is narrowed to, inside both legs.
        fusion: A name in ``fusion.FUSIONS``.
        limits: How documents are cut, for those that are read directly.
    """

    top_k: int = 5
    filters: Filters = field(default_factory=Filters)
    fusion: str = "rrf"
    limits: ChunkLimits = field(default_factory=ChunkLimits)


@dataclass(frozen=True, slots=True)
class Scope:
    """One project that is searched: its collection, its Markdown, and what is not indexed.

    ``models`` are the embedding models that its vectors are of, as far as the log knows.
    """

    project: Project
    memory: Memory = field(default_factory=Memory)
    freshness: Freshness = field(default_factory=Freshness)
    models: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search found.

    Attributes:
        results: Best first, with the keys of ``result``.
        freshness: How far the index is behind.
        notes: What the asker should know about how it was found.
        degraded: The index could not be read.
    """

    results: list[dict[str, Any]]
    freshness: dict[str, Any]
    notes: list[str]
    degraded: bool = False

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "results": self.results,
            "freshness": self.freshness,
            "notes": self.notes,
            "degraded": self.degraded,
        }


def search(
    query: str,
    options: SearchOptions,
    *,
    scopes: Sequence[Scope],
    store: AbstractContextManager[Store | None] | None,
    model: str,
    embedder: Callable[[], Embedder],
) -> Answer:
    """Search projects.

    The question is embedded before the store is entered: where several processes take turns
    at one Milvus Lite, a model is loaded while another one reads.

    Args:
        query: The question.
        options: How.
        scopes: The projects; of several, hits are merged by each leg's own scores.
        store: Entered for the two legs alone; None when there is no index.
        model: Identity of the model that questions are embedded with.
        embedder: Gives that model.

    Raises:
        MemsearchError: ``BAD_REQUEST`` for a question without a word.
    """
    text, notes = _question(query)
    terms = query_keywords(text)
    vector = None
    if store is not None:
        other = _other_models(model, scopes)
        if other:
            notes.append(
                f"Searched by keywords alone: the index is of {other}, the model of now is"
                f" {model}; memsearch index renews it"
            )
        else:
            try:
                vector = embedder().embed_query(text)
            except MemsearchError as error:
                notes.append(
                    f"Searched by keywords alone, since the question has no vector: {error}"
                )
    fresh = freshness.merge(scope.freshness for scope in scopes)
    texts = scan.read(fresh.unindexed, model, options.limits)
    notes += texts.failed
    legs = _Legs(terms, vector, options, texts)
    degraded = False
    if store is not None:
        try:
            with store as opened:
                if opened is not None:
                    legs.run(opened, scopes)
        except MemsearchError as error:
            degraded = True
            notes.append(f"The index could not be read: {error}")
            texts = _read_all(scopes, model, options)
            legs = _Legs(terms, None, options, texts)
    notes += legs.notes
    fuse = FUSIONS[options.fusion]
    ranked = fuse(legs.dense, legs.keyword)
    found, unindexed = _scanned(legs, texts, options)
    ranked = in_order([_weighed(item) for item in [*ranked, *found]])
    results = [
        result(item, indexed=item.fused.hit.chunk_hash not in unindexed)
        for item in fold(ranked, options.top_k)
    ]
    if texts.skipped:
        which = "" if degraded else "that the index does not hold "
        notes.append(f"{texts.skipped} documents {which}were too much to read for this answer")
    if len(scopes) > 1:
        _name_projects(results, legs, texts)
    told = fresh.as_dict() | {"scanned": len(texts.chunks), "unscanned": texts.skipped}
    return Answer(results, told, notes, degraded)


def result(item: Folded, *, indexed: bool) -> dict[str, Any]:
    """A result as every face of recall gives it out."""
    hit, fused = item.fused.hit, item.fused
    return {
        "chunk_hash": hit.chunk_hash,
        "content": hit.content,
        "source": hit.source,
        "heading": hit.heading,
        "heading_level": hit.heading_level,
        "start_line": hit.start_line,
        "end_line": hit.end_line,
        "score": round(fused.score, 4),
        "similarity": None if fused.similarity is None else round(fused.similarity, 4),
        "ranks": {"dense": fused.dense, "keyword": fused.keyword},
        "platform": hit.platform,
        "session": hit.session,
        "turn": hit.turn,
        "day": day_text(hit.day),
        "kind": hit.kind,
        "indexed": indexed,
        "copies": item.copies,
    }


def answer_search(request: Mapping[str, Any], access: Access) -> dict[str, Any]:
    """Answer a ``search`` request; see ``recall.requests``."""
    everywhere = flag_of(request, "all_projects")
    where = setting_of(request, access, everything=everywhere)
    options = _options(request, where)
    archive = "archive" in options.filters.kinds
    projects = where.all_projects() if everywhere else (where.project,)
    scopes = [scope_of(project, where, access, archive=archive) for project in projects]
    answer = search(
        text_of(request, "query"),
        options,
        scopes=scopes,
        store=access.store() if access.has_index() else None,
        model=access.model(),
        embedder=access.embedder,
    )
    unreadable = (text for scope in scopes for text in scope.memory.unreadable)
    notes = [*where.notes, *unreadable, *answer.notes]
    if not answer.results and not answer.degraded and not _remembers(where, scopes):
        place = "any project" if everywhere else where.project.root
        notes.append(f"Nothing is indexed yet for {place}; memsearch index reads its Markdown")
    return replace(answer, notes=notes).as_dict()


def scope_of(project: Project, where: Setting, access: Access, *, archive: bool) -> Scope:
    """A project with what the disk and the log say of it now."""
    exclude = access.settings(project.root).indexing.exclude
    memory = memory_of(project, exclude, archive=archive)
    documents = where.log.documents_of(project.collection)
    return Scope(
        project,
        memory,
        freshness.check(project, where.log, memory.files),
        frozenset(document.model for document in documents if document.model),
    )


class _Legs:
    """The two rankings of the index, over all scopes."""

    def __init__(
        self, terms: str, vector: Vectors | None, options: SearchOptions, texts: Scan
    ) -> None:
        self.terms = terms
        self.vector = vector
        self.options = options
        self.limit = max(LEG_MIN, LEG_FACTOR * options.top_k)
        self.dense: Leg = None
        self.keyword: Leg = None
        self.notes: list[str] = []
        self.project_of: dict[str, Project] = {}
        #: Ids of the documents that were read directly, as the index holds them.
        self.held: set[str] = set()
        #: Content hashes of those documents as they are now.
        self.current = {
            (document.project.collection, document.source): {
                content_hash(hit.content) for hit in hits
            }
            for document, hits in texts.chunks.items()
        }
        self._texts = texts

    def run(self, store: Store, scopes: Sequence[Scope]) -> None:
        """Ask the index."""
        dense: list[list[Hit]] = []
        keyword: list[list[Hit]] = []
        done: set[str] = set()
        for scope in scopes:
            collection = scope.project.collection
            if collection in done:
                continue
            done.add(collection)
            vector = self._vector_for(store, collection)
            filters = self.options.filters
            if vector is not None:
                hits = store.dense(collection, vector, self.limit, filters)
                dense.append(self._still_true(scope, hits))
            if self.terms:
                hits = store.keyword(collection, self.terms, self.limit, filters)
                keyword.append(self._still_true(scope, hits))
        # A leg that could not run is None, so that the other one is scored alone.
        self.dense = self._best(dense) if dense else None
        self.keyword = self._best(keyword) if keyword else None
        self._look_up(store)

    def _vector_for(self, store: Store, collection: str) -> Vectors | None:
        if self.vector is None:
            return None
        dimension = store.dimension(collection)
        if dimension is None or dimension == len(self.vector):
            return self.vector
        self.notes.append(
            f"Searched by keywords alone: the index holds vectors of {dimension} numbers and"
            f" the model of now gives {len(self.vector)}; memsearch index renews it"
        )
        return None

    def _still_true(self, scope: Scope, hits: Iterable[Hit]) -> list[Hit]:
        """The hits whose text is still in the Markdown, as far as that is known."""
        kept = []
        for hit in hits:
            if hit.source in scope.freshness.gone:
                continue
            current = self.current.get((scope.project.collection, hit.source))
            if current is not None and content_hash(hit.content) not in current:
                continue
            self.project_of.setdefault(hit.chunk_hash, scope.project)
            kept.append(hit)
        return kept

    def _best(self, parts: list[list[Hit]]) -> list[Hit]:
        merged = heapq.merge(*parts, key=lambda hit: -hit.score)
        return list(merged)[: self.limit]

    def _look_up(self, store: Store) -> None:
        """Which chunks of the documents that were read directly the index holds already."""
        for document in list(self._texts.chunks)[:MAX_ID_LOOKUPS]:
            self.held |= store.ids(document.project.collection, document.source)


def _question(query: str) -> tuple[str, list[str]]:
    text = query.strip()
    if not text:
        raise MemsearchError(
            "The question is empty",
            kind=ErrorClass.BAD_REQUEST,
            hint='for instance: memsearch search "why did we drop redis"',
        )
    if len(text) <= MAX_QUERY_CHARS:
        return text, []
    return text[:MAX_QUERY_CHARS], [
        f"Only the first {MAX_QUERY_CHARS} characters of the question were used"
    ]


def _other_models(model: str, scopes: Sequence[Scope]) -> str:
    """The models of vectors that a question of ``model`` cannot be compared with."""
    return ", ".join(
        sorted({name for scope in scopes for name in scope.models if name and name != model})
    )


def _read_all(scopes: Sequence[Scope], model: str, options: SearchOptions) -> Scan:
    """Every document of the projects, newest first: what is left when the index is not."""
    documents: list[Unindexed] = []
    for scope in scopes:
        documents += freshness.check(scope.project, LogView(), scope.memory.files).unindexed
    documents.sort(key=lambda item: (-item.mtime_ns, item.path))
    return scan.read(documents, model, options.limits)


def _scanned(
    legs: _Legs, texts: Scan, options: SearchOptions
) -> tuple[list[Fused], frozenset[str]]:
    """The answers that only the direct reading knows, and their ids."""
    rivals = list(legs.keyword or ())
    known = {hit.chunk_hash for hit in [*rivals, *(legs.dense or ())]} | legs.held
    held_texts = {
        (legs.project_of[hit.chunk_hash].collection, hit.source, hit.content)
        for hit in [*rivals, *(legs.dense or ())]
    }
    fresh = [
        hit
        for document, hits in texts.chunks.items()
        for hit in hits
        if hit.chunk_hash not in known
        and (document.project.collection, hit.source, hit.content) not in held_texts
    ]
    placed = scan.rank(legs.terms, fresh, rivals, options.filters)
    found = [
        Fused(hit, place_score(place), similarity=None, dense=None, keyword=place)
        for hit, place in placed
    ]
    return found, frozenset(item.hit.chunk_hash for item in found)


def _weighed(item: Fused) -> Fused:
    if item.hit.kind != "digest":
        return item
    return replace(item, score=item.score * DIGEST_WEIGHT)


def _name_projects(results: list[dict[str, Any]], legs: _Legs, texts: Scan) -> None:
    """Say of each result which project it is from."""
    roots = {key: project.root for key, project in legs.project_of.items()}
    for document, hits in texts.chunks.items():
        for hit in hits:
            roots.setdefault(hit.chunk_hash, document.project.root)
    for item in results:
        item["project"] = roots[item["chunk_hash"]]


def _options(request: Mapping[str, Any], where: Setting) -> SearchOptions:
    settings = where.settings
    filters = make_filters(
        today=_today(request),
        base=where.project.base,
        since=text_of(request, "since"),
        until=text_of(request, "until"),
        day=text_of(request, "day"),
        platform=text_of(request, "platform"),
        session=text_of(request, "session"),
        source_prefix=text_of(request, "source_prefix"),
        kinds=texts_of(request, "kinds"),
        archive=flag_of(request, "archive"),
    )
    return SearchOptions(
        top_k=number_of(request, "top_k", settings.search.top_k, least=1, most=MAX_TOP_K),
        filters=filters,
        fusion=settings.search.fusion if settings.search.fusion in FUSIONS else "rrf",
        limits=ChunkLimits(settings.chunking.max_chunk_size, settings.chunking.overlap_lines),
    )


def _today(request: Mapping[str, Any]) -> date:
    text = text_of(request, "today")
    if not text:
        return local_today()
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise MemsearchError(
            f"today must be a day as YYYY-MM-DD, not {text!r}", kind=ErrorClass.BAD_REQUEST
        ) from error


def _remembers(where: Setting, scopes: Sequence[Scope]) -> bool:
    """Whether there is anything that a search could have found."""
    return any(
        where.log.documents_of(scope.project.collection) or scope.freshness.unindexed
        for scope in scopes
    )
