"""The optional reranker. Its library is not among the tests' own; a stand-in plays the model."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.recall import rerank
from memsearch.recall.fusion import Fused
from memsearch.sinks.types import Hit

Make = Callable[..., Hit]


@pytest.fixture(autouse=True)
def unloaded() -> Iterator[None]:
    rerank.let_go()
    yield
    rerank.let_go()


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A library whose models score a text by the number in it."""
    module = ModuleType("sentence_transformers")

    class CrossEncoder:
        def __init__(self, name: str) -> None:
            if name == "missing":
                raise OSError("no such model")
            self.name = name

        def predict(self, pairs: list[tuple[str, str]], show_progress_bar: bool) -> list[float]:
            assert not show_progress_bar
            assert {question for question, _ in pairs} == {"why"}
            return [float(text) for _, text in pairs]

    module.CrossEncoder = CrossEncoder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    return module


def fused(hit: Hit, score: float) -> Fused:
    return Fused(hit, score, 0.8, 1, None)


def order(found: list[Fused]) -> list[str]:
    return [item.hit.chunk_hash for item in found]


def test_the_model_decides_the_order(library: ModuleType, make_hit: Make) -> None:
    ranked = [
        fused(make_hit("a", content="-2.0"), 1.0),
        fused(make_hit("b", content="3.5"), 0.6),
        fused(make_hit("c", content="0.0"), 0.5),
    ]
    found = rerank.rerank("m", "why", ranked)
    assert order(found) == ["b", "c", "a"]
    assert [round(item.score, 3) for item in found] == [0.971, 0.5, 0.119]
    # The places in the legs stay what they were.
    assert (found[0].similarity, found[0].dense) == (0.8, 1)


def test_scores_that_are_shares_stay(library: ModuleType, make_hit: Make) -> None:
    ranked = [fused(make_hit("a", content="0.2"), 1.0), fused(make_hit("b", content="0.9"), 0.6)]
    assert [item.score for item in rerank.rerank("m", "why", ranked)] == [0.9, 0.2]


def test_what_is_not_read_stays_behind(library: ModuleType, make_hit: Make) -> None:
    count = rerank.CANDIDATES + 2
    ranked = [
        fused(make_hit(f"{n:02d}", content=str(n / count)), 1 - n / count) for n in range(count)
    ]
    found = rerank.rerank("m", "why", ranked)
    assert order(found)[-2:] == ["30", "31"]
    assert [item.score for item in found] == sorted((f.score for f in found), reverse=True)
    assert rerank.rerank("m", "why", []) == []


def test_a_score_that_is_no_number(library: ModuleType, make_hit: Make) -> None:
    with pytest.raises(MemsearchError) as caught:
        rerank.rerank("m", "why", [fused(make_hit("a", content="nan"), 1.0)])
    assert caught.value.kind is ErrorClass.BAD_ANSWER


def test_a_model_that_cannot_be_loaded(library: ModuleType, make_hit: Make) -> None:
    with pytest.raises(MemsearchError, match="missing cannot be loaded") as caught:
        rerank.rerank("missing", "why", [fused(make_hit("a"), 1.0)])
    assert caught.value.kind is ErrorClass.CONFIG


@pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is not None, reason="the extra is installed"
)
def test_without_the_extra(make_hit: Make) -> None:
    with pytest.raises(MemsearchError) as caught:
        rerank.rerank("m", "why", [fused(make_hit("a"), 1.0)])
    assert caught.value.kind is ErrorClass.CONFIG
    assert "memsearch[local]" in caught.value.hint
