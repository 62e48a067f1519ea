"""Text that is not in the index yet, found by its words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from memsearch.config.project import Project
from memsearch.recall import scan
from memsearch.recall.freshness import Unindexed
from memsearch.recall.scan import ChunkLimits
from memsearch.sinks.keywords import query_keywords
from memsearch.sinks.types import Filters, Hit

Make = Callable[..., Hit]

PROJECT = Project("/w", "/w/.memsearch/memory", "/w", "c1")


def document(folder: Path, name: str, text: str) -> Unindexed:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return Unindexed(PROJECT, name, str(path), 1, path.stat().st_size)


def test_reads_and_cuts(tmp_path: Path) -> None:
    one = document(tmp_path, "2026-03-05.md", "# a\n\nalpha\n\n## b\n\nbeta\n")
    found = scan.read([one], "m", ChunkLimits())
    hits = found.chunks[one]
    assert [(hit.heading, hit.day, hit.kind) for hit in hits] == [
        ("a", 20260305, "entry"),
        ("b", 20260305, "entry"),
    ]
    assert len({hit.chunk_hash for hit in hits}) == 2
    # The id is the one that the index will give it, which depends on the model.
    other = scan.read([one], "another model", ChunkLimits())
    assert {hit.chunk_hash for hit in hits}.isdisjoint(h.chunk_hash for h in other.chunks[one])


def test_is_bounded_and_says_so(tmp_path: Path) -> None:
    documents = [document(tmp_path, f"{n}.md", f"# {n}\n\n" + "x" * 90) for n in range(5)]
    small = document(tmp_path, "small.md", "tiny\n")
    found = scan.read([*documents, small], "m", ChunkLimits(), max_bytes=200)
    # The newest come first, and what is small enough still fits behind them.
    assert list(found.chunks) == [documents[0], documents[1], small]
    assert found.skipped == 3


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    gone = Unindexed(PROJECT, "gone.md", str(tmp_path / "gone.md"), 1, 10)
    there = document(tmp_path, "a.md", "alpha\n")
    found = scan.read([gone, there], "m", ChunkLimits())
    assert list(found.chunks) == [there]
    assert len(found.failed) == 1
    assert "gone.md" in found.failed[0]


def keys(hits: list[Hit]) -> list[str]:
    return [hit.chunk_hash for hit in hits]


def test_a_rare_word_comes_first_among_the_indexed_hits(make_hit: Make) -> None:
    question = query_keywords("why did the XQZ9 upload fail")
    indexed = [
        make_hit(f"i{n}", 5.0 - n / 10, f"- the upload number {n} went well") for n in range(9)
    ]
    fresh = [
        make_hit("f1", content="- the XQZ9 job was retried"),
        make_hit("f2", content="- lunch was late"),
    ]
    merged = scan.merge(question, fresh, indexed, Filters())
    assert keys(merged) == ["f1", *keys(indexed)]
    assert merged[0].score > 5.0


def test_a_common_word_comes_behind_better_hits(make_hit: Make) -> None:
    question = query_keywords("flaky login test on CI")
    indexed = [make_hit(f"i{n}", 9.0, f"- the flaky login test on CI, {n}") for n in range(3)]
    fresh = [make_hit("f", content="- a test")]
    merged = scan.merge(question, fresh, indexed, Filters())
    assert keys(merged) == ["i0", "i1", "i2", "f"]
    assert 0 < merged[3].score < 9.0


def test_places_are_counted_over_both(make_hit: Make) -> None:
    question = query_keywords("alpha")
    indexed = [make_hit("i", 3.0, "alpha beta beta beta beta")]
    fresh = [make_hit("f1", content="alpha alpha"), make_hit("f2", content="alpha" + " beta" * 40)]
    assert keys(scan.merge(question, fresh, indexed, Filters())) == ["f1", "i", "f2"]


@pytest.mark.parametrize(
    ("score", "expected"),
    [(8.0, 40.0), (4.0, 20.0), (3.0, 15.0), (2.0, 10.0), (1.5, 6.0), (1.0, 2.0), (0.5, 1.0)],
)
def test_scores_are_translated_between_their_neighbours(score: float, expected: float) -> None:
    assert scan.translated(score, [4.0, 2.0, 1.0], [20.0, 10.0, 2.0]) == expected
    assert scan.translated(score, [], []) == score


def test_equal_scores_are_no_division_by_zero() -> None:
    assert scan.translated(2.0, [2.0, 2.0], [9.0, 8.0]) == 9.0
    assert scan.translated(2.5, [3.0, 2.0, 2.0], [9.0, 8.0, 7.0]) == 8.5


def test_filters_hold_here_too(make_hit: Make) -> None:
    fresh = [
        make_hit("a", content="alpha", day=20260305, platform="codex"),
        make_hit("b", content="alpha", day=20260306, platform="codex"),
        make_hit("c", content="alpha", day=20260305, platform="opencode"),
    ]
    wanted = Filters(until=date(2026, 3, 5), platform="codex")
    assert keys(scan.merge("alpha", fresh, [], wanted)) == ["a"]


def test_chinese_and_headings_and_days_are_words_too(make_hit: Make) -> None:
    fresh = [
        make_hit("zh", content="- 用户要求修复 GitHub 备份脚本上传超时"),
        make_hit("later piece", content="and so on", heading="Rollback of the gateway"),
        make_hit("day", content="- nothing", day=20260303),
    ]
    for question, key in (("备份脚本失败", "zh"), ("gateway", "later piece"), ("3月3日", "day")):
        assert keys(scan.merge(query_keywords(question), fresh, [], Filters())) == [key], question


def test_nothing_to_look_for_or_in(make_hit: Make) -> None:
    assert scan.merge("", [make_hit("a", content="alpha")], [], Filters()) == []
    indexed = [make_hit("a", content="alpha")]
    assert scan.merge("alpha", [], indexed, Filters()) == indexed
