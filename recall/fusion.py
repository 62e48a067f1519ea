"""One order out of two: the hits of the vector leg and of the keyword leg, fused.

Each fusion is a pure function of the two legs. ``FUSIONS`` names them, so that the setting
``search.fusion`` picks one and a further one is one function and one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from memsearch.sinks.types import Hit

#: Dampens the weight of the first places. 60 is the value of Cormack, Clarke and Büttcher,
#: "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods",
#: SIGIR 2009.
RRF_K = 60


@dataclass(frozen=True, slots=True)
class Fused:
    """A hit with its place in the answer.

    Attributes:
        hit: What was found.
        score: 0 to 1, comparable within one answer only.
        similarity: Cosine of question and text, comparable between answers; None when the
            vector leg did not return it.
        dense: Its 1-based place in the vector leg, or None.
        keyword: Its 1-based place in the keyword leg, or None.
    """

    hit: Hit
    score: float
    similarity: float | None
    dense: int | None
    keyword: int | None


#: A leg is its hits, best first; None when it did not run at all.
Leg = Sequence[Hit] | None
Fusion = Callable[[Leg, Leg], list[Fused]]


def reciprocal_rank(dense: Leg, keyword: Leg, *, k: int = RRF_K) -> list[Fused]:
    """Reciprocal rank fusion: a hit's score is the sum of ``1 / (k + place)`` over the legs.

    The sum is divided by what a hit that is first in every leg would get, so that such a hit
    scores 1.0; when only one leg ran, its first hit does. Equal scores keep the order of the
    best place, then of similarity, then of the id, so that an answer is repeatable.

    Args:
        dense: The vector leg; its hits' scores are cosines.
        keyword: The keyword leg.
        k: The dampening constant, in places.

    Returns:
        Every hit of either leg once, best first.
    """
    places: dict[str, dict[str, int]] = {}
    hits: dict[str, Hit] = {}
    cosines: dict[str, float] = {}
    for name, leg in (("dense", dense), ("keyword", keyword)):
        for place, hit in enumerate(leg or (), start=1):
            hits.setdefault(hit.chunk_hash, hit)
            places.setdefault(hit.chunk_hash, {}).setdefault(name, place)
            if name == "dense":
                cosines.setdefault(hit.chunk_hash, hit.score)
    legs = sum(leg is not None for leg in (dense, keyword))
    fused = [
        Fused(
            hit=hit,
            score=sum(place_score(place, k=k) for place in places[key].values()) / legs,
            similarity=cosines.get(key),
            dense=places[key].get("dense"),
            keyword=places[key].get("keyword"),
        )
        for key, hit in hits.items()
    ]
    return in_order(fused)


def in_order(found: Iterable[Fused]) -> list[Fused]:
    """Hits by score, best first; equal ones by best place, similarity, id."""
    return sorted(found, key=_order)


def place_score(place: int, *, k: int = RRF_K) -> float:
    """What a place counts for, against 1.0 for the first: ``(k + 1) / (k + place)``."""
    return (k + 1) / (k + place)


def _order(fused: Fused) -> tuple[float, int, float, str]:
    best = min(place for place in (fused.dense, fused.keyword) if place is not None)
    similarity = -2.0 if fused.similarity is None else fused.similarity
    return (-fused.score, best, -similarity, fused.hit.chunk_hash)


#: The fusions by the name that ``search.fusion`` gives them.
FUSIONS: dict[str, Fusion] = {"rrf": reciprocal_rank}
