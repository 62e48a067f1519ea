"""Reciprocal rank fusion."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsearch.recall.fusion import FUSIONS, RRF_K, in_order, reciprocal_rank
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


@given(
    dense=st.lists(st.sampled_from("abcdefgh"), unique=True),
    keyword=st.lists(st.sampled_from("abcdefgh"), unique=True),
)
def test_every_hit_once_within_bounds_and_in_order(dense: list[str], keyword: list[str]) -> None:
    def leg(keys: list[str]) -> list[Hit]:
        return [Hit(key, 0.0, key, key, "", 0, 1, 1, "", "", "", 0, "note") for key in keys]

    for fuse in FUSIONS.values():
        fused = fuse(leg(dense), leg(keyword))
        assert sorted(f.hit.chunk_hash for f in fused) == sorted({*dense, *keyword})
        assert all(0 < f.score <= 1 for f in fused)
        assert [f.score for f in fused] == sorted((f.score for f in fused), reverse=True)
