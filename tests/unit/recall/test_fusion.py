"""The three fusions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsearch.recall.fusion import (
    FUSIONS,
    RRF_K,
    Fused,
    Fusion,
    Question,
    in_order,
    reciprocal_rank,
    standardized,
    weighted,
)
from memsearch.sinks.types import Hit

Make = Callable[..., Hit]


def test_first_in_both_legs_scores_one(make_hit: Make) -> None:
    dense = [make_hit("a", 0.9), make_hit("b", 0.8)]
    keyword = [make_hit("a", 7.0), make_hit("c", 3.0)]
    best, *others = reciprocal_rank(dense, keyword)
    assert (best.hit.chunk_hash, best.score) == ("a", 1.0)
    assert (best.similarity, best.dense, best.keyword) == (0.9, 1, 1)
    assert [(f.hit.chunk_hash, f.similarity, f.dense, f.keyword) for f in others] == [
        ("b", 0.8, 2, None),
        ("c", None, None, 2),
    ]


def test_score_is_the_sum_over_the_legs_against_the_best_possible(make_hit: Make) -> None:
    dense = [make_hit("a"), make_hit("b"), make_hit("c")]
    keyword = [make_hit("c"), make_hit("a")]
    scores = {f.hit.chunk_hash: f.score for f in reciprocal_rank(dense, keyword)}
    best = 2 / (RRF_K + 1)
    assert scores["a"] == pytest.approx((1 / (RRF_K + 1) + 1 / (RRF_K + 2)) / best)
    assert scores["b"] == pytest.approx((1 / (RRF_K + 2)) / best)
    assert scores["c"] == pytest.approx((1 / (RRF_K + 3) + 1 / (RRF_K + 1)) / best)


def test_a_leg_that_did_not_run_does_not_halve_the_other(make_hit: Make) -> None:
    keyword = [make_hit("a"), make_hit("b")]
    assert reciprocal_rank(None, keyword)[0].score == 1.0
    # One that ran and found nothing does: the hit is not first in both.
    assert reciprocal_rank([], keyword)[0].score == 0.5


def test_no_legs_and_no_hits() -> None:
    assert reciprocal_rank(None, None) == []
    assert reciprocal_rank([], []) == []


def test_equal_scores_have_one_order(make_hit: Make) -> None:
    one = reciprocal_rank([make_hit("b", 0.4)], [make_hit("a")])
    assert [f.hit.chunk_hash for f in one] == ["b", "a"]  # the one with a similarity first
    two = reciprocal_rank(None, [make_hit("x")]) + reciprocal_rank(None, [make_hit("m")])
    assert [f.hit.chunk_hash for f in in_order(two)] == ["m", "x"]


def test_a_hit_that_a_leg_names_twice_counts_once(make_hit: Make) -> None:
    fused = reciprocal_rank([make_hit("a"), make_hit("a"), make_hit("b")], [])
    assert [(f.hit.chunk_hash, f.dense) for f in fused] == [("a", 1), ("b", 3)]


def scores(fused: list[Fused]) -> dict[str, float]:
    return {item.hit.chunk_hash: item.score for item in fused}


class TestStandardized:
    """By hand: dense 0.9, 0.8, 0.7 has mean 0.8 and deviation 0.0816; z = 1.2247, 0, -1.2247."""

    def test_the_recipe(self, make_hit: Make) -> None:
        dense = [make_hit("a", 0.9), make_hit("b", 0.8), make_hit("c", 0.7)]
        keyword = [make_hit("b", 6.0), make_hit("d", 2.0)]
        # Padded to four: 6, 2, 0, 0 has mean 2 and deviation 2.4495; z = 1.633, 0, -0.8165.
        found = scores(standardized(dense, keyword, Question(limit=4)))
        z, top, low = 1.2247449, 1.6329932, -0.8164966
        spread = 2 * z + top - low
        assert found["a"] == pytest.approx((2 * z) / spread)  # lacks the keyword leg: its minimum
        assert found["b"] == pytest.approx((z + top - low) / spread)
        assert found["c"] == pytest.approx(0.0)
        assert found["d"] == pytest.approx((0 - low) / spread)  # lacks the dense leg: its minimum

    def test_a_lone_hit_stands_out(self, make_hit: Make) -> None:
        """Without the padding a single hit would be its own mean and count for nothing."""
        dense = [make_hit(f"d{n}", 0.80 - n / 1000) for n in range(30)]
        fused = standardized(dense, [make_hit("d17", 4.0)], Question(limit=30))
        assert fused[0].hit.chunk_hash == "d17"

    def test_a_weak_first_place_does_not_outvote_a_sure_leg(self, make_hit: Make) -> None:
        dense = [make_hit("right", 0.92), *(make_hit(f"d{n}", 0.80) for n in range(20))]
        keyword = [make_hit(f"k{n}", 3.0 - n / 100) for n in range(30)]
        best = standardized(dense, keyword)[0]
        assert (best.hit.chunk_hash, best.score > 0.5) == ("right", True)

    def test_what_the_dense_leg_could_not_know_is_average_in_it(self, make_hit: Make) -> None:
        dense = [make_hit("a", 0.9), make_hit("b", 0.8), make_hit("c", 0.7)]
        keyword = [make_hit("new", 6.0), make_hit("a", 1.0)]
        known = scores(standardized(dense, keyword, Question(limit=4)))["new"]
        fresh = scores(standardized(dense, keyword, Question(limit=4, unplaced={"new"})))["new"]
        assert fresh > known

    def test_a_text_in_another_language_is_not_blamed_for_lacking_the_words(
        self, make_hit: Make
    ) -> None:
        dense = [make_hit("foreign", 0.9), make_hit("b", 0.8), make_hit("c", 0.7)]
        keyword = [make_hit("b", 6.0), make_hit("c", 5.0)]
        plain = scores(standardized(dense, keyword, Question(limit=3)))["foreign"]
        asked = Question(limit=3, foreign={"foreign"})
        assert scores(standardized(dense, keyword, asked))["foreign"] > plain
        # Without a vector leg there is nothing to judge it by.
        alone = Question(limit=3, foreign={"foreign"})
        assert set(scores(standardized(None, keyword, alone))) == {"b", "c"}

    def test_similarities_may_differ_from_the_scores(self, make_hit: Make) -> None:
        dense = [make_hit("a", 2.0), make_hit("b", -1.0)]
        fused = standardized(dense, None, Question(cosines={"a": 0.8, "b": 0.7}))
        assert [item.similarity for item in fused] == [0.8, 0.7]

    def test_legs_that_do_not_tell_their_hits_apart(self, make_hit: Make) -> None:
        assert scores(standardized([make_hit("a", 0.5)], None)) == {"a": 1.0}
        alike = [make_hit("a", 0.5), make_hit("b", 0.5)]
        assert scores(standardized(alike, None)) == {"a": 1.0, "b": 1.0}
        found = scores(standardized(alike, [make_hit("b", 2.0)]))
        assert found == {"b": 1.0, "a": 0.0}
        assert scores(standardized(None, [make_hit("a", 2.0), make_hit("b", 2.0)]))["b"] == 1.0


class TestWeighted:
    def test_seven_to_three(self, make_hit: Make) -> None:
        dense = [make_hit("a", 0.9), make_hit("b", 0.8), make_hit("c", 0.7)]
        keyword = [make_hit("b", 6.0), make_hit("d", 3.0)]
        found = scores(weighted(dense, keyword))
        assert found == pytest.approx({"a": 0.7, "b": 0.35 + 0.3, "c": 0.0, "d": 0.15})

    def test_half_and_half_for_what_is_literal(self, make_hit: Make) -> None:
        dense = [make_hit("a", 0.9), make_hit("b", 0.8), make_hit("c", 0.7)]
        keyword = [make_hit("b", 6.0), make_hit("d", 3.0)]
        found = scores(weighted(dense, keyword, Question(literal=True)))
        assert found == pytest.approx({"a": 0.5, "b": 0.75, "c": 0.0, "d": 0.25})


@pytest.mark.parametrize("fuse", FUSIONS.values(), ids=FUSIONS)
def test_first_in_both_legs_scores_one_whatever_the_fusion(fuse: Fusion, make_hit: Make) -> None:
    dense = [make_hit("a", 0.9), make_hit("b", 0.8)]
    keyword = [make_hit("a", 7.0), make_hit("c", 3.0)]
    fused = fuse(dense, keyword, Question())
    assert (fused[0].hit.chunk_hash, fused[0].score) == ("a", pytest.approx(1.0))
    assert [(f.dense, f.keyword, f.similarity) for f in fused[:1]] == [(1, 1, 0.9)]
    assert fuse(None, keyword, Question())[0].score == pytest.approx(1.0)
    assert fuse(None, None, Question()) == []
    assert fuse([], [], Question()) == []


KEYS = st.lists(st.sampled_from("abcdefgh"), unique=True)
SCORES = st.lists(st.floats(0.01, 50), min_size=8, max_size=8)


@pytest.mark.parametrize("fuse", FUSIONS.values(), ids=FUSIONS)
@given(dense=KEYS, keyword=KEYS, cosines=SCORES, weights=SCORES, limit=st.integers(1, 40))
def test_every_hit_once_within_bounds_and_in_order(
    fuse: Fusion,
    dense: list[str],
    keyword: list[str],
    cosines: list[float],
    weights: list[float],
    limit: int,
) -> None:
    def leg(keys: list[str], scores: list[float]) -> list[Hit]:
        best = sorted(scores, reverse=True)
        return [
            Hit(key, score, key, key, "", 0, 1, 1, "", "", "", 0, "note")
            for key, score in zip(keys, best, strict=False)
        ]

    fused = fuse(leg(dense, cosines), leg(keyword, weights), Question(limit))
    assert sorted(f.hit.chunk_hash for f in fused) == sorted({*dense, *keyword})
    assert all(0 <= f.score <= 1 for f in fused)
    assert [f.score for f in fused] == sorted((f.score for f in fused), reverse=True)
