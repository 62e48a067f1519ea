"""Search: by meaning and by keyword, fused, without doubles, and honest about its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.project import Project
from memsearch.recall import freshness, origin, scan
from memsearch.recall.dates import day_text, local_today
from memsearch.recall.dedupe import Folded, fold
from memsearch.recall.direct import DirectIndex
from memsearch.recall.filters import make_filters
from memsearch.recall.fusion import Fused
from memsearch.recall.language import directions
from memsearch.recall.legs import Asked, Index, Ranker, Scope
from memsearch.recall.origin import Written, turns_behind
from memsearch.recall.requests import (
    MAX_QUERY_CHARS,
    MAX_TOP_K,
    flag_of,
    number_of,
    text_of,
    texts_of,
)
from memsearch.recall.scan import ChunkLimits, Scan
from memsearch.recall.scope import Setting, memory_of, setting_of
from memsearch.recall.timewords import Named, named_time
from memsearch.sinks.embedders import check_present
from memsearch.sinks.filters import day_is_in
from memsearch.sinks.keywords import identifiers, query_keywords
from memsearch.sinks.language import Direction
from memsearch.sinks.types import Embedder, Filters, Store, Vectors

if TYPE_CHECKING:
    from memsearch.recall.access import Access
    from memsearch.sinks.cache import EmbeddingCache

#: Marks of a quote in a question.
QUOTES = ('"', "“", "「", "`")


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How a search is done.

    Attributes:
        top_k: How many different results at most.
        filters: What it is narrowed to, inside both legs.
        today: The day that times in the question count from; None: they are not looked for.
        fusion: A name in ``fusion.FUSIONS``.
        cross_language: The question is asked without its language.
        reranker: A cross-encoder's name; empty for none.
        limits: How documents are cut, for those that are read directly.
    """

    top_k: int = 5
    filters: Filters = field(default_factory=Filters)
    today: date | None = None
    fusion: str = "standardized"
    cross_language: bool = True
    reranker: str = ""
    limits: ChunkLimits = field(default_factory=ChunkLimits)


@dataclass(frozen=True, slots=True)
class Means:
    """What a search runs on.

    Attributes:
        store: Entered for the two legs alone; None when there is no index.
        model: Identity of the model that questions are embedded with; may be empty with a
            ``fault``.
        embedder: Gives that model.
        directions: By collection, the direction between the languages.
        cache: Opens the cache of vectors for reading.
        fault: Why there is no such model.
        foreign: Which of some texts this machine did not write.
    """

    store: AbstractContextManager[Store | None] | None
    model: str
    embedder: Callable[[], Embedder]
    directions: Callable[[Sequence[str]], Mapping[str, Direction]]
    cache: Callable[[], EmbeddingCache]
    fault: MemsearchError | None = None
    foreign: Callable[[Sequence[Written]], Sequence[bool]] = lambda texts: [True] * len(texts)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search found.

    Attributes:
        results: Best first, with the keys of ``result``.
        freshness: How far the index is behind.
        notes: What the asker should know about how it was found.
        degraded: The index has a fault, for which the Markdown was read instead. Not set
            where this process may not open it, as in a sandbox.
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


def search(query: str, options: SearchOptions, *, scopes: Sequence[Scope], means: Means) -> Answer:
    """Search projects.

    The question is embedded before the store is entered: where several processes take turns
    at one Milvus Lite, a model is loaded while another one reads.

    Args:
        query: The question.
        options: How.
        scopes: The projects; of several, hits are merged by each leg's own scores.
        means: What it runs on.

    Raises:
        MemsearchError: ``BAD_REQUEST`` for a question without a word; ``CONFIG`` when the
            reranker cannot be had.
    """
    text, notes = _question(query)
    asked = Asked(
        text,
        query_keywords(text),
        _vector(text, scopes, means, notes),
        model=means.model,
        literal=any(mark in text for mark in QUOTES) or bool(identifiers(text)),
        top_k=options.top_k,
        fusion=options.fusion,
    )
    if not asked.terms and asked.vector is not None:
        notes.append("The question holds no word to look for: these are the nearest by meaning")
    time = _named_time(text, options)
    fresh = freshness.merge(scope.freshness for scope in scopes)
    texts = scan.read(fresh.unindexed, means.model, options.limits)
    collections = [scope.project.collection for scope in scopes]
    apart = options.cross_language and asked.vector is not None
    known = means.directions(collections) if apart else {}
    ranker = Ranker(asked, scopes, texts, directions=known)
    degraded = False
    try:
        with means.store if means.store is not None else nullcontext() as store:
            if _is_gone(store, scopes):
                raise IndexGoneError
            looks = _look(ranker, store, time, options)
            if texts.skipped and asked.terms and not _says(looks):
                # Before nothing is said of these words, more is read for them.
                texts = scan.read(
                    fresh.unindexed, means.model, options.limits, max_bytes=scan.LAST_SCAN_BYTES
                )
                ranker = Ranker(asked, scopes, texts, directions=known)
                looks = _look(ranker, store, time, options)
        unindexed: set[str] = ranker.unindexed
    except MemsearchError as error:
        degraded = error.kind is not ErrorClass.PERMISSION and not isinstance(error, IndexGoneError)
        notes.append(f"The Markdown itself was read, since the index could not be: {error}")
        direct = DirectIndex(scopes, means.model, options.limits, means.cache)
        ranker = _direct_ranker(asked, scopes, direct, options, notes)
        looks = _look(ranker, direct, time, options)
        texts, unindexed = direct.texts, direct.unindexed
    notes += texts.failed
    notes += ranker.notes
    if options.reranker:
        from memsearch.recall.rerank import rerank

        looks = [rerank(options.reranker, text, look) for look in looks]
    folded = fold(joined(looks), options.top_k)
    if time is not None:
        notes.append(_told(time, folded, looks))
    projects = _projects(ranker.project_of, texts)
    foreign = means.foreign([_written(item, projects) for item in folded])
    results = [
        result(item, indexed=_key(item) not in unindexed, foreign=strange)
        for item, strange in zip(folded, foreign, strict=True)
    ]
    if texts.skipped:
        which = "" if means.store and degraded else "that the index does not hold "
        notes.append(f"{texts.skipped} documents {which}were too much to read for this answer")
    if len(scopes) > 1:
        for each in results:
            each["project"] = projects[each["chunk_hash"]].root
    told = fresh.as_dict() | {
        "scanned": len(texts.chunks),
        "unscanned": texts.skipped,
        "renewal": renewal_of(means.model, scopes),
    }
    return Answer(results, told, notes, degraded)


class IndexGoneError(MemsearchError):
    """What the log says was indexed is in no index: somebody deleted it, as they may."""

    def __init__(self) -> None:
        super().__init__("it is gone, and workers make it anew", kind=ErrorClass.DAMAGED)


def _is_gone(store: Store | None, scopes: Sequence[Scope]) -> bool:
    return any(
        store is None or store.dimension(scope.project.collection) is None
        for scope in scopes
        if any(document.indexed and document.chunks for document in scope.documents)
    )


def _says(looks: Iterable[Iterable[Fused]]) -> bool:
    """Whether anything that was found holds a word of the question."""
    return any(item.keyword for look in looks for item in look)


def joined(looks: Sequence[Sequence[Fused]]) -> list[Fused]:
    """One ranking of several: each hit where it comes first.

    Of two, those of the first keep the upper half of the scores and the others the lower.
    """
    if len(looks) == 1:
        return list(looks[0])
    first, second = looks
    there = {item.hit.chunk_hash for item in first}
    return [replace(item, score=0.5 + item.score / 2) for item in first] + [
        replace(item, score=item.score / 2) for item in second if item.hit.chunk_hash not in there
    ]


def _look(
    ranker: Ranker, index: Index | None, time: Named | None, options: SearchOptions
) -> list[list[Fused]]:
    """The rankings that make the answer: in the time that was named, then in any."""
    if time is None:
        return [ranker.rank(index, options.filters)]
    narrowed = replace(options.filters, since=time.first, until=time.last)
    first = ranker.rank(index, narrowed)
    if len(fold(first, options.top_k)) == options.top_k:
        return [first]
    anytime = ranker.rank(index, options.filters)
    return [first, anytime] if first else [anytime]


def _named_time(text: str, options: SearchOptions) -> Named | None:
    if options.today is None or options.filters.since or options.filters.until:
        return None
    return named_time(text, options.today)


def _told(time: Named, folded: Sequence[Folded], looks: Sequence[Sequence[Fused]]) -> str:
    days = f"{time.first}" if time.first == time.last else f"{time.first} to {time.last}"
    when = f"{days} ({time.words!r} in the question)"
    filters = Filters(since=time.first, until=time.last)
    inside = sum(day_is_in(item.fused.hit.day, filters) for item in folded)
    if not inside:
        return f"Nothing is from {when}, so all days were searched"
    if len(looks) == 1:
        return f"Searched {when} alone"
    return f"Searched {when} first; that gave {inside}, the rest is of other days"


def _vector(text: str, scopes: Sequence[Scope], means: Means, notes: list[str]) -> Vectors | None:
    """The question's vector; without one, ``notes`` says why."""
    if means.store is None and not _is_gone(None, scopes):
        return None
    if means.fault is not None:
        notes.append(f"Searched by keywords alone: {means.fault}")
        return None
    other = _other_models(means.model, scopes)
    if other:
        notes.append(
            f"Searched by keywords alone: the index is of {other}, the model of now is"
            f" {means.model}; {_how_far(renewal_of(means.model, scopes))}"
        )
        return None
    try:
        return means.embedder().embed_query(text)
    except MemsearchError as error:
        notes.append(f"Searched by keywords alone, since the question has no vector: {error}")
        return None


def _direct_ranker(
    asked: Asked,
    scopes: Sequence[Scope],
    direct: DirectIndex,
    options: SearchOptions,
    notes: list[str],
) -> Ranker:
    if asked.vector is not None:
        missing = direct.read_vectors(len(asked.vector))
        if missing:
            notes.append(f"Searched by keywords alone: {missing}")
            asked = replace(asked, vector=None)
    return Ranker(
        asked,
        scopes,
        Scan({}),
        directions=direct.directions() if options.cross_language else None,
        unplaced=direct.unplaced,
    )


def _key(item: Folded) -> str:
    return item.fused.hit.chunk_hash


def _written(item: Folded, projects: Mapping[str, Project]) -> Written:
    hit = item.fused.hit
    project = projects[hit.chunk_hash]
    return Written(project, turns_behind(project, hit))


def result(item: Folded, *, indexed: bool, foreign: bool) -> dict[str, Any]:
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
        "foreign": foreign,
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
        means=means_of(access),
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
    return Scope(
        project,
        memory,
        freshness.check(project, where.log, memory.files),
        where.log.documents_of(project.collection),
    )


def means_of(access: Access) -> Means:
    """What a search of a home runs on."""
    model, fault = "", None
    try:
        model = access.model()
        check_present(access.settings(None).embedding, access.home)
    except MemsearchError as error:
        # Keywords need none, and somebody who is about to change the model must not lose them.
        fault = error

    def cache() -> EmbeddingCache:
        from memsearch.sinks.cache import EmbeddingCache

        return EmbeddingCache(access.home.embeddings_db, read_only=True)

    return Means(
        store=access.store() if access.has_index() else None,
        model=model,
        embedder=access.embedder,
        directions=lambda names: directions(access.home.state_db, names, model),
        cache=cache,
        fault=fault,
        foreign=lambda written: origin.foreign(access.home, written),
    )


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


def renewal_of(model: str, scopes: Sequence[Scope]) -> dict[str, Any] | None:
    """How far an index of another model has become one of ``model``, for the answer.

    Returns:
        ``to``, ``from`` (models), ``documents`` (those that are done) ``of`` how many, and
        ``waits`` (for somebody to agree to what it costs); None when all is of this model.
    """
    others = _other_models(model, scopes)
    if not others:
        return None
    documents = [
        document for scope in scopes for document in scope.documents if document.state != "dead"
    ]
    done = [each for each in documents if each.model == model and each.state == "done"]
    return {
        "from": others.split(", "),
        "to": model,
        "documents": len(done),
        "of": len(documents),
        "waits": any(document.held for document in documents),
    }


def _how_far(renewal: Mapping[str, Any] | None) -> str:
    if renewal is None:
        return "memsearch index renews it"
    if renewal["waits"]:
        return (
            "renewing it may cost money and waits for memsearch index --force"
            " (memsearch status says how much)"
        )
    return (
        f"{renewal['documents']} of {renewal['of']} documents are renewed"
        " (memsearch index waits for the rest)"
    )


def _projects(project_of: Mapping[str, Project], texts: Scan) -> dict[str, Project]:
    """Which project each text is from, by its id."""
    found = dict(project_of)
    for document, hits in texts.chunks.items():
        for hit in hits:
            found.setdefault(hit.chunk_hash, document.project)
    return found


def _options(request: Mapping[str, Any], where: Setting) -> SearchOptions:
    settings = where.settings
    today = _today(request)
    filters = make_filters(
        today=today,
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
        today=today,
        fusion=settings.search.fusion,
        cross_language=settings.search.cross_language,
        reranker=settings.search.reranker,
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
