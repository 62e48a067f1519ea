"""Token ids, held to the engine that the weights come with and to the tokenizers library."""

from __future__ import annotations

import itertools
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsearch.sinks.embedders.e5_tokenizer import META, E5Tokenizer
from memsearch.sinks.embedders.e5_weights import Vocabulary, Weights

REFERENCE = json.loads(
    (Path(__file__).parents[2] / "data" / "e5_reference.json").read_text(encoding="utf-8")
)
#: More tokens than any text here has.
ALL = 100_000


@cache
def vocabulary() -> Vocabulary:
    return Weights().vocabulary()


@cache
def tokenizer() -> E5Tokenizer:
    return E5Tokenizer(vocabulary())


@cache
def library() -> Any:
    """The same pieces in the Unigram model of the tokenizers library."""
    tokenizers = pytest.importorskip("tokenizers")
    tables = vocabulary()
    pairs = list(zip(tables.pieces, tables.scores, strict=True))
    return tokenizers.models.Unigram(pairs, unk_id=tables.unk)


@pytest.mark.parametrize("name", [name for name in REFERENCE["texts"] if name != "specials"])
def test_ids_are_those_of_the_engine(name: str) -> None:
    assert tokenizer().encode(REFERENCE["texts"][name], ALL) == REFERENCE["ids"][name]


def test_control_tokens_in_a_text_are_text() -> None:
    text = REFERENCE["texts"]["specials"]
    ids = tokenizer().encode(text, ALL)
    tables = vocabulary()
    # The engine takes them for control; a text must not be able to say "end of text".
    assert {tables.bos, tables.eos, tables.pad} <= set(REFERENCE["ids"]["specials"])
    assert not {tables.bos, tables.eos, tables.pad, tables.pieces.index("<mask>")} & set(ids)
    assert "".join(tables.pieces[i] for i in ids) == META + text.replace(" ", META)


words = st.text(
    st.one_of(
        st.characters(max_codepoint=0x24F, exclude_characters=" "),
        st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF),
        st.characters(exclude_categories=["Cs"], exclude_characters=" "),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(words)
def test_a_word_is_cut_as_by_the_tokenizers_library(word: str) -> None:
    word = tokenizer().normalise(word).replace(" ", "").replace("<", "").replace(">", "")
    ours = list(tokenizer()._segment(META + word))
    theirs = [token.id for token in library().tokenize(META + word)]
    unk = vocabulary().unk
    # The library makes one token of unknown characters in a row, the engine one of each.
    fused = [key for key, run in itertools.groupby(ours) for _ in ([0] if key == unk else run)]
    # Two cuts of the same score may both be right: hold the scores then.
    if fused != theirs:
        scores = vocabulary().scores
        ours_sum = sum(scores[i] for i in fused if i != unk)
        assert ours_sum == pytest.approx(sum(scores[i] for i in theirs if i != unk), abs=1e-3)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200), st.integers(1, 50))
def test_a_limit_gives_the_first_tokens(text: str, limit: int) -> None:
    assert tokenizer().encode(text, limit) == tokenizer().encode(text, ALL)[:limit]


def test_a_text_of_any_length_is_looked_at_only_as_far_as_needed() -> None:
    class Counting(E5Tokenizer):
        seen = 0

        def normalise(self, text: str) -> str:
            Counting.seen += len(text)
            return super().normalise(text)

    counting = Counting(vocabulary())
    assert len(counting.encode("连接池" * 2_000_000, 510)) == 510
    assert Counting.seen < 50_000


def test_lone_surrogates_and_nul_do_not_raise() -> None:
    assert tokenizer().encode("a\udc80b\x00c", ALL)
