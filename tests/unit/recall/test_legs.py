"""What becomes of the legs before they are fused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.project import Project
from memsearch.recall.fusion import Fused
from memsearch.recall.legs import (
    DIGEST_WEIGHT,
    Asked,
    Ranker,
    Scope,
    best_of,
    by_language,
    in_another_language,
    weighed,
)
from memsearch.recall.scan import Scan
from memsearch.sinks.types import Filters, Hit

Make = Callable[..., Hit]


def keys(hits: list[Hit]) -> list[str]:
    return [hit.chunk_hash for hit in hits]


def test_the_best_of_several_rankings(make_hit: Make) -> None:
    one = [make_hit("a", 3.0), make_hit("b", 1.0)]
    other = [make_hit("c", 2.0)]
    assert keys(best_of([one, other], 2)) == ["a", "c"]
    assert best_of([], 2) == []


class TestByLanguage:
    def test_what_stands_out_in_its_language_comes_first(self, make_hit: Make) -> None:
        english = [make_hit(f"e{n}", 0.90 - n / 1000, f"- note {n} in English") for n in range(9)]
        chinese = [
            make_hit("right", 0.86, "- 备份脚本超时"),
            *(make_hit(f"z{n}", 0.80 - n / 1000, f"- 第{n}条中文笔记") for n in range(9)),
        ]
        order = by_language(best_of([english, chinese], 100), 30)
        assert keys(order)[0] == "right"
        assert keys(order)[1] == "e0"
        assert [hit.score for hit in order] == sorted((h.score for h in order), reverse=True)

    def test_one_language_keeps_its_order(self, make_hit: Make) -> None:
        english = [make_hit(f"e{n}", 0.9 - n / 100, f"- note {n} in English") for n in range(9)]
        assert keys(by_language(english, 30)) == keys(english)

    def test_each_language_is_bounded(self, make_hit: Make) -> None:
        english = [make_hit(f"e{n}", 0.9 - n / 100, f"- note {n} in English") for n in range(9)]
        assert keys(by_language(english, 4)) == ["e0", "e1", "e2", "e3"]

    def test_a_lone_hit_of_a_language_is_measured_by_the_others(self, make_hit: Make) -> None:
        chinese = [make_hit(f"z{n}", 0.80 - n / 1000, f"- 第{n}条中文笔记") for n in range(9)]
        first = by_language([make_hit("e", 0.85, "- the only English note"), *chinese], 30)
        assert (keys(first)[0], first[0].score > 2) == ("e", True)
        last = by_language([*chinese, make_hit("e", 0.70, "- the only English note")], 30)
        assert (keys(last)[-1], last[-1].score < -2) == ("e", True)

    def test_of_few_texts_all_are_measured_together(self, make_hit: Make) -> None:
        order = by_language([make_hit("e", 0.9, "- a note"), make_hit("z", 0.5, "- 备份超时")], 30)
        assert [(hit.chunk_hash, hit.score) for hit in order] == [
            ("e", pytest.approx(1.0)),
            ("z", pytest.approx(-1.0)),
        ]

    def test_anchors_are_no_english(self, make_hit: Make) -> None:
        anchor = "<!-- session:abcdef turn:abcdef transcript:~/.claude/projects/x/abcdef.jsonl -->"
        hit = make_hit("z", 0.8, f"### 14:47\n{anchor}\n- 备份脚本超时")
        assert in_another_language("why did the backup time out", [hit]) == {"z"}
        assert in_another_language("备份脚本", [hit]) == frozenset()

    def test_hits_that_are_all_alike(self, make_hit: Make) -> None:
        alike = [make_hit("a", 0.5, "- one"), make_hit("b", 0.5, "- two")]
        assert [hit.score for hit in by_language(alike, 30)] == [0.0, 0.0]
        assert by_language([], 30) == []


def test_a_question_without_a_letter_is_of_no_language(make_hit: Make) -> None:
    assert in_another_language("404?", [make_hit("z", 0.8, "- 备份脚本超时")]) == frozenset()


def test_a_digest_is_lowered(make_hit: Make) -> None:
    digest = Fused(make_hit("d", kind="digest"), 1.0, None, 1, None)
    note = Fused(make_hit("n"), 1.0, None, 1, None)
    assert weighed(digest).score == pytest.approx(DIGEST_WEIGHT)
    assert weighed(note).score == 1.0


class OldServer:
    """An index that cannot search by keyword, as a Milvus before 2.5."""

    def __init__(self, hits: list[Hit]) -> None:
        self.hits = hits

    def dimension(self, *_: object) -> int:
        return 2

    def identity(self, *_: object) -> None:
        return None

    def ids(self, *_: object) -> set[str]:
        return set()

    def dense(self, *_: object) -> list[Hit]:
        return self.hits

    def keyword(self, *_: object) -> list[Hit]:
        raise MemsearchError("the server is too old for it", kind=ErrorClass.CONFIG)


def test_a_server_without_keyword_search_is_searched_by_meaning(make_hit: Make) -> None:
    index = OldServer([make_hit("a", 0.9), make_hit("b", 0.8)])
    scopes = [Scope(Project("/w", "/w/m", "/w", "c"))]

    def ranker(vector: Any) -> Ranker:
        return Ranker(Asked("a word", "word", vector), scopes, Scan({}))

    both = ranker(np.array([1, 0], np.float32))
    assert [item.hit.chunk_hash for item in both.rank(index, Filters())] == ["a", "b"]
    assert both.notes == ["Searched by meaning alone: the server is too old for it"]
    # With nothing else to search by it is an error, for which the Markdown is read.
    with pytest.raises(MemsearchError):
        ranker(None).rank(index, Filters())
