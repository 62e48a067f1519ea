"""The same thing said twice is one answer: near-duplicates are folded, so that others fit in.

Copies of a journal (a sync's conflict copy, a digest that repeats an entry) hold the same
text under another path. Two texts are the same when their bodies are equal but for markup,
case and white space, or when nearly all their shingles are shared and no number, version or
hash differs between them: a different number is a different fact.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from memsearch.recall.fusion import Fused
from memsearch.sinks.types import Hit

#: Characters in a shingle. Characters and not words, so that Chinese needs no word breaks.
SHINGLE_CHARS = 8
#: Share of common shingles (Jaccard) from which two texts are one.
SAME_SHARE = 0.9
#: Texts whose lengths differ by more than this factor are not compared further: their
#: shingles cannot overlap enough.
MAX_LENGTH_RATIO = 1 / SAME_SHARE

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HEADING = re.compile(r"^ {0,3}#{1,6}(?:\s.*)?$", re.MULTILINE)
_BULLET = re.compile(r"^\s*(?:[-*+]|\d{1,9}[.)])\s+", re.MULTILINE)
_SPACE = re.compile(r"\s+")
#: Words that hold a digit: numbers, versions, dates, hashes, ticket names.
_NUMBERED = re.compile(r"[\w./:-]*\d[\w./:-]*")


@dataclass(frozen=True, slots=True)
class Folded:
    """An answer and how many near-duplicates of it were folded into it."""

    fused: Fused
    copies: int


@dataclass(slots=True)
class _Kept:
    fused: Fused
    body: str
    digest: str
    # Made when they are first compared, and once: a question has some thousand pairs.
    shingles: frozenset[str] | None = None
    numbers: list[str] | None = None
    copies: int = 0


def fold(ranked: Iterable[Fused], limit: int) -> list[Folded]:
    """The first ``limit`` different answers, in order, filled up from further down.

    Args:
        ranked: Hits, best first. The best of its duplicates stands for them.
        limit: How many different answers at most.
    """
    kept: list[_Kept] = []
    for fused in ranked:
        body = normalised(fused.hit.content)
        digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
        candidate = _Kept(fused, body, digest)
        for other in kept:
            if _same(other, candidate):
                other.copies += 1
                break
        else:
            if len(kept) < limit:
                kept.append(candidate)
    return [Folded(item.fused, item.copies) for item in kept]


def normalised(content: str) -> str:
    """A text's body without comments, headings, bullets, case and differences of white space."""
    body = _COMMENT.sub(" ", content)
    body = _HEADING.sub(" ", body)
    body = _BULLET.sub(" ", body)
    return _SPACE.sub(" ", body).strip().casefold()


def shingles(text: str) -> frozenset[str]:
    """Every run of ``SHINGLE_CHARS`` characters; the whole of a shorter text."""
    if len(text) <= SHINGLE_CHARS:
        return frozenset((text,)) if text else frozenset()
    return frozenset(
        text[start : start + SHINGLE_CHARS] for start in range(len(text) - SHINGLE_CHARS + 1)
    )


def _same(one: _Kept, other: _Kept) -> bool:
    if not one.body or not other.body:
        # Nothing but a heading: compared by the heading.
        return one.body == other.body and one.fused.hit.heading == other.fused.hit.heading
    if one.digest == other.digest:
        return True
    if _different_turns(one.fused.hit, other.fused.hit):
        # Two turns that read alike are two things that happened.
        return False
    shorter, longer = sorted((len(one.body), len(other.body)))
    if longer > shorter * MAX_LENGTH_RATIO:
        return False
    for item in (one, other):
        if item.numbers is None:
            item.numbers = _NUMBERED.findall(item.body)
    if one.numbers != other.numbers:
        return False
    for item in (one, other):
        if item.shingles is None:
            item.shingles = shingles(item.body)
    a, b = one.shingles or frozenset(), other.shingles or frozenset()
    return len(a & b) >= SAME_SHARE * len(a | b)


def _different_turns(one: Hit, other: Hit) -> bool:
    return bool(one.turn and other.turn and one.turn != other.turn)
