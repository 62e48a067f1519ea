"""Text that is not in the index yet, found by its words.

What a turn has just appended, or a human has just saved, is read straight from the Markdown,
so that a search never answers "never happened" because the index lags. Bounded: a whole
history that was never indexed is the index's work, and the answer says what was left out.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memsearch.config.errors import MemsearchError
from memsearch.recall.freshness import Unindexed
from memsearch.sinks.bm25 import Bm25Index
from memsearch.sinks.chunker import chunk_document
from memsearch.sinks.documents import read_document
from memsearch.sinks.filters import matches
from memsearch.sinks.ids import chunk_hash
from memsearch.sinks.keywords import keywords
from memsearch.sinks.types import Chunk, Filters, Hit

#: Bytes of Markdown that one search reads at most.
MAX_SCAN_BYTES = 1_000_000
#: The same where no word of the question was found: some seconds, before nothing is said.
LAST_SCAN_BYTES = 20_000_000

#: Chunks whose keywords are kept in memory (some 5 MB): while the index is behind, a service
#: weighs the same ones at each search, and a megabyte of text takes a second.
KEYWORD_CACHE = 2_048


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """How documents are cut: ``chunking.max_chunk_size`` in characters, ``overlap_lines``."""

    max_chunk_size: int = 1500
    overlap_lines: int = 2


@dataclass(frozen=True, slots=True)
class Scan:
    """What reading the unindexed documents gave.

    Attributes:
        chunks: All their chunks with their ids, by document, in the documents' order.
        skipped: Documents left unread because of the bound.
        failed: Why a document could not be read, in words.
    """

    chunks: Mapping[Unindexed, tuple[Hit, ...]]
    skipped: int = 0
    failed: tuple[str, ...] = ()


def read(
    documents: Sequence[Unindexed],
    model: str,
    limits: ChunkLimits,
    *,
    max_bytes: int = MAX_SCAN_BYTES,
) -> Scan:
    """Read and cut documents, in the given order, until the bound is met.

    Args:
        documents: Newest first, so that the newest are read.
        model: The model's identity, which is part of a chunk's id.
        limits: How they are cut.
        max_bytes: Bytes read at most. A document that does not fit whole is left out, and
            smaller ones behind it are still read.
    """
    chunks: dict[Unindexed, tuple[Hit, ...]] = {}
    failed: list[str] = []
    left, skipped = max_bytes, 0
    for document in documents:
        if document.size > left:
            skipped += 1
            continue
        left -= document.size
        try:
            chunks[document] = chunks_of(document, model, limits)
        except MemsearchError as error:
            failed.append(str(error))
    return Scan(chunks, skipped, tuple(failed))


def chunks_of(document: Unindexed, model: str, limits: ChunkLimits) -> tuple[Hit, ...]:
    """The chunks of one document as it is now, as hits with score 0.

    Raises:
        MemsearchError: ``BAD_FILE`` or ``PERMISSION``.
    """
    return tuple(
        as_hit(chunk, chunk_hash(chunk, model))
        for chunk in chunk_document(
            read_document(document.path),
            document.source,
            max_chunk_size=limits.max_chunk_size,
            overlap_lines=limits.overlap_lines,
            archived=document.archived,
        )
    )


def as_hit(chunk: Chunk, key: str) -> Hit:
    """A chunk as the index would return it."""
    return Hit(
        chunk_hash=key,
        score=0.0,
        content=chunk.content,
        source=chunk.source,
        heading=chunk.heading,
        heading_level=chunk.heading_level,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        platform=chunk.platform,
        session=chunk.session,
        turn=chunk.turn,
        day=chunk.day,
        kind=chunk.kind,
    )


def merge(
    terms: str, scanned: Iterable[Hit], indexed: Sequence[Hit], filters: Filters
) -> list[Hit]:
    """The keyword leg with the scanned chunks in it that hold a word of the question.

    Scanned chunks have no place in the index's ranking. They are weighed together with the
    index's keyword hits, all by one BM25 over both, and get the score that a hit of the index
    at their place would have.

    Args:
        terms: The question's keywords, separated by spaces.
        scanned: Chunks that are not in the index.
        indexed: The keyword leg's hits, best first.
        filters: What the search is narrowed to.

    Returns:
        Best first. Chunks without any word of the question are left out.
    """
    fresh = {hit.chunk_hash: hit for hit in scanned if matches(hit, filters)}
    if not terms or not fresh:
        return list(indexed)
    weighing = Bm25Index()
    for hit in [*indexed, *fresh.values()]:
        weighing.put(hit.chunk_hash, hit_keywords(hit))
    weighed = weighing.search(terms)
    local = [score for key, score in weighed if key not in fresh]
    theirs = [hit.score for hit in indexed[: len(local)]]
    placed = [
        replace(fresh[key], score=translated(score, local, theirs))
        for key, score in weighed
        if key in fresh
    ]
    return sorted([*indexed, *placed], key=lambda hit: -hit.score)


def translated(score: float, local: Sequence[float], theirs: Sequence[float]) -> float:
    """A score on one scale as one on another, between the scores of the same places.

    Args:
        score: On the first scale.
        local: Scores of ranked texts on the first scale, best first, greater than 0.
        theirs: Scores of those places on the other, best first, greater than 0; as many.
    """
    if not local:
        return score
    below = next((n for n, other in enumerate(local) if other <= score), len(local))
    if below == 0:
        return theirs[0] * score / local[0]
    if below == len(local):
        return theirs[-1] * score / local[-1]
    share = (score - local[below]) / (local[below - 1] - local[below])
    return theirs[below] + share * (theirs[below - 1] - theirs[below])


def hit_keywords(hit: Hit) -> str:
    """A hit's keywords, as the index holds them: a later piece is about its heading too."""
    first = hit.content.split("\n", 1)[0]
    text = hit.content if hit.heading in first else f"{hit.heading}\n{hit.content}"
    return _known_keywords(text, hit.day)


@functools.lru_cache(maxsize=KEYWORD_CACHE)
def _known_keywords(text: str, day: int) -> str:
    return keywords(text, day=day)
