"""One order out of two: the hits of the vector leg and of the keyword leg, fused.

Each fusion says what a place in a leg is worth; adding up and scaling is the same for all.
``FUSIONS`` names them, so that the setting ``search.fusion`` picks one and a further one is
one function and one line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from math import sqrt

from memsearch.sinks.types import Hit

#: Dampens the weight of the first places. 60 is the value of Cormack, Clarke and Büttcher,
#: "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods",
#: SIGIR 2009.
RRF_K = 60

#: Shares of the vector leg and the keyword leg in ``weighted``, ...
WEIGHTS = (0.7, 0.3)
#: ... and where the question holds names, codes or quotes, which a vector blurs.
LITERAL_WEIGHTS = (0.5, 0.5)

#: What a text in the other language than the question gets in the keyword leg, which cannot
#: know it: this share of what it has in the vector leg.
FOREIGN_SHARE = 0.65

#: Spreads below this are rounding: a leg that gives all its hits the same score.
FLAT = 1e-6


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


@dataclass(frozen=True, slots=True)
class Question:
    """What a fusion may know beside the legs.

    Attributes:
        limit: How many hits each leg was asked for.
        literal: The question holds names, codes or quotes.
        unplaced: Ids that the vector leg could not have returned, since they are not indexed.
        foreign: Ids of texts in the other language, which no word of the question can be in.
        cosines: Cosines by id, where the vector leg's scores are something else.
    """

    limit: int = 30
    literal: bool = False
    unplaced: Collection[str] = ()
    foreign: Collection[str] = ()
    cosines: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Worth:
    """What a leg's places count for.

    Attributes:
        values: By id, of the leg's own hits.
        low, high: The least and the most that the leg gives; no spread, no say.
        absent: Of a candidate that the leg does not hold.
        unknown: Of a candidate that it could not have held.
    """

    values: dict[str, float]
    low: float
    high: float
    absent: float
    unknown: float


Fusion = Callable[[Leg, Leg, Question], list[Fused]]


def standardized(dense: Leg, keyword: Leg, question: Question = Question()) -> list[Fused]:
    """Standard scores, half and half.

    Each leg's scores are standardised over its own candidates (mean 0, deviation 1). A
    keyword leg shorter than it was asked for is padded with zeros, which is what the texts
    it did not return score: else a lone hit on an identifier would not stand out. A
    candidate that a leg lacks gets that leg's minimum.

    Reciprocal rank fusion lets the first place of a leg that found nothing telling outvote a
    leg that is sure; here a leg weighs as much as its best hit stands out from the rest.
    """
    padding = max(0, question.limit - len(keyword)) if keyword is not None else 0
    return combine(
        dense,
        keyword,
        [_standard_scores(dense, 0), _standard_scores(keyword, padding)],
        (0.5, 0.5),
        question,
    )


def reciprocal_rank(
    dense: Leg,
    keyword: Leg,
    question: Question = Question(),
    *,
    k: int = RRF_K,
) -> list[Fused]:
    """Reciprocal rank fusion: a hit's score is the sum of ``1 / (k + place)`` over the legs.

    Args:
        dense: The vector leg; its hits' scores are cosines.
        keyword: The keyword leg.
        question: What else is known.
        k: The dampening constant, in places.
    """

    def worth(leg: Leg) -> Worth:
        values = {hit.chunk_hash: 1 / (k + place) for place, hit in _placed(leg)}
        middle = 1 / (k + question.limit / 2)
        return Worth(values, 0.0, 1 / (k + 1), 0.0, middle)

    return combine(dense, keyword, [worth(dense), worth(keyword)], (0.5, 0.5), question)


def weighted(dense: Leg, keyword: Leg, question: Question = Question()) -> list[Fused]:
    """Scores, each leg's scaled to 0 to 1, with fixed shares (``WEIGHTS``).

    Cosines are scaled between the leg's worst and best hit, since a model's lie close
    together; keyword scores by the best one alone, since their zero means something.
    """

    def worth(leg: Leg, floor: float) -> Worth:
        scores = {hit.chunk_hash: hit.score for _, hit in _placed(leg)}
        high = max(scores.values(), default=0.0)
        spread = high - floor if high > floor else 1.0
        # One hit, or all alike: each is as good as the leg knows.
        values = {
            key: (score - floor) / spread if high > floor else 1.0 for key, score in scores.items()
        }
        return Worth(values, 0.0, 1.0 if values else 0.0, 0.0, 0.5)

    least = min((hit.score for hit in dense or ()), default=0.0)
    weights = LITERAL_WEIGHTS if question.literal else WEIGHTS
    return combine(dense, keyword, [worth(dense, least), worth(keyword, 0.0)], weights, question)


def combine(
    dense: Leg,
    keyword: Leg,
    worths: Sequence[Worth],
    weights: Sequence[float],
    question: Question,
) -> list[Fused]:
    """Add up what the legs say and scale it to 0 to 1.

    1.0 is what a hit gets that is the best of each leg that ran, 0.0 one that is the worst
    in all. When no leg tells its hits apart, all score 1.0. Equal scores keep the order of
    the best place, then of similarity, then of the id, so that an answer is repeatable.

    Args:
        dense: The vector leg, or None.
        keyword: The keyword leg, or None.
        worths: What their places count for.
        weights: Their shares.
        question: What else is known.

    Returns:
        Every hit of either leg once, best first.
    """
    legs = (dense, keyword)
    ran = [n for n, leg in enumerate(legs) if leg is not None]
    hits: dict[str, Hit] = {}
    places: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for n in ran:
        for place, hit in _placed(legs[n]):
            hits.setdefault(hit.chunk_hash, hit)
            places[n].setdefault(hit.chunk_hash, place)
    cosines = question.cosines
    if cosines is None:
        cosines = {hit.chunk_hash: hit.score for hit in reversed(dense or ())}
    spread = sum(weights[n] * (worths[n].high - worths[n].low) for n in ran)

    def worth_of(n: int, key: str) -> float:
        worth = worths[n]
        if key in worth.values:
            return worth.values[key]
        if n == 0:
            return worth.unknown if key in question.unplaced else worth.absent
        if key in question.foreign and dense is not None:
            return max(worth.absent, FOREIGN_SHARE * worth_of(0, key))
        return worth.absent

    def score(key: str) -> float:
        if spread <= 0:
            return 1.0
        total = sum(weights[n] * (worth_of(n, key) - worths[n].low) for n in ran)
        return min(1.0, max(0.0, total / spread))

    return in_order(
        Fused(
            hit=hit,
            score=score(key),
            similarity=cosines.get(key),
            dense=places[0].get(key),
            keyword=places[1].get(key),
        )
        for key, hit in hits.items()
    )


def in_order(found: Iterable[Fused]) -> list[Fused]:
    """Hits by score, best first; equal ones by best place, similarity, id."""
    return sorted(found, key=_order)


def _placed(leg: Leg) -> list[tuple[int, Hit]]:
    """A leg's hits with their 1-based places; of one that is named twice the better place."""
    seen: dict[str, tuple[int, Hit]] = {}
    for place, hit in enumerate(leg or (), start=1):
        seen.setdefault(hit.chunk_hash, (place, hit))
    return list(seen.values())


def _standard_scores(leg: Leg, padding: int) -> Worth:
    scores = {hit.chunk_hash: hit.score for _, hit in _placed(leg)}
    count = len(scores) + padding
    if not scores:
        return Worth({}, 0.0, 0.0, 0.0, 0.0)
    mean = sum(scores.values()) / count
    squares = chain(((score - mean) ** 2 for score in scores.values()), repeat(mean**2, padding))
    deviation = sqrt(sum(squares) / count)
    if deviation <= FLAT * max(1.0, abs(mean)):
        return Worth(dict.fromkeys(scores, 0.0), 0.0, 0.0, 0.0, 0.0)
    values = {key: (score - mean) / deviation for key, score in scores.items()}
    low = min(values.values())
    if padding:
        low = min(low, -mean / deviation)
    # Unknown is the mean: neither for it nor against it.
    return Worth(values, low, max(values.values()), low, 0.0)


def _order(fused: Fused) -> tuple[float, int, float, str]:
    best = min(place for place in (fused.dense, fused.keyword) if place is not None)
    similarity = -2.0 if fused.similarity is None else fused.similarity
    return (-fused.score, best, -similarity, fused.hit.chunk_hash)


#: The fusions by the name that ``search.fusion`` gives them.
FUSIONS: dict[str, Fusion] = {
    "standardized": standardized,
    "rrf": reciprocal_rank,
    "weighted": weighted,
}
