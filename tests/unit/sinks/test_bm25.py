"""BM25 held to the formula, written down a second time without numpy."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from memsearch.sinks.bm25 import K1, B, Bm25Index


def by_the_formula(rows: dict[str, str], question: str) -> dict[str, float]:
    split = {key: text.lower().split() for key, text in rows.items()}
    average = sum(map(len, split.values())) / len(split)
    scores: Counter[str] = Counter()
    for term in question.lower().split():
        df = sum(term in words for words in split.values())
        idf = math.log(1 + (len(split) - df + 0.5) / (df + 0.5))
        for key, words in split.items():
            tf = words.count(term)
            if tf:
                norm = K1 * (1 - B + B * len(words) / average)
                scores[key] += idf * tf * (K1 + 1) / (tf + norm)
    return dict(scores)


def index_of(rows: dict[str, str]) -> Bm25Index:
    index = Bm25Index()
    for key, text in rows.items():
        index.put(key, text)
    return index


def test_scores_are_those_of_the_formula() -> None:
    rng = random.Random(3)
    words = [f"w{n}" for n in range(30)]
    rows = {f"{n:04x}": " ".join(rng.choices(words, k=rng.randint(1, 12))) for n in range(60)}
    index = index_of(rows)
    for _ in range(40):
        question = " ".join(rng.choices([*words, "unknown"], k=rng.randint(1, 5)))
        found = index.search(question)
        assert dict(found) == pytest.approx(by_the_formula(rows, question), rel=1e-5)
        assert [score for _, score in found] == sorted((s for _, s in found), reverse=True)


def test_changes_count_at_once() -> None:
    rows = {"a": "apple pear", "b": "apple", "c": "plum"}
    index = index_of(rows)
    assert [key for key, _ in index.search("apple")] == ["b", "a"]
    index.put("b", "plum plum")
    index.remove(["c", "unknown"])
    assert len(index) == 2
    assert dict(index.search("apple plum")) == pytest.approx(
        by_the_formula({"a": "apple pear", "b": "plum plum"}, "apple plum"), rel=1e-5
    )
    index.remove(["a", "b"])
    assert index.search("apple") == []


@pytest.mark.parametrize("question", ["", "  ", "!? -", "nothing"])
def test_nothing_to_find(question: str) -> None:
    assert Bm25Index().search(question) == []
    assert index_of({"a": "apple", "b": ""}).search(question) == []


def test_rows_without_words_do_no_harm() -> None:
    index = index_of({"a": "", "b": "- - -"})
    assert index.search("a") == []
    index.put("c", "Word")
    assert [key for key, _ in index.search("WORD word")] == ["c"]


def test_equal_scores_are_in_the_order_of_the_ids() -> None:
    index = index_of(dict.fromkeys("cab", "same"))
    assert [key for key, _ in index.search("same")] == ["a", "b", "c"]
