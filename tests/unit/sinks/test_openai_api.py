"""How texts are cut into requests, and what counts as this machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsearch.sinks.embedders.openai_api import (
    OpenAIEmbedder,
    batches,
    estimate_tokens,
    is_loopback,
)


@given(st.lists(st.integers(0, 300), max_size=200), st.integers(1, 50), st.integers(1, 500))
def test_requests_keep_both_bounds_and_the_order(tokens: list[int], size: int, most: int) -> None:
    cuts = batches(tokens, size, most)
    assert [index for cut in cuts for index in cut] == list(range(len(tokens)))
    for cut in cuts:
        assert 1 <= len(cut) <= size
        assert len(cut) == 1 or sum(tokens[i] for i in cut) <= most


def test_no_more_requests_than_needed() -> None:
    assert len(batches([10] * 200, 64, 100_000)) == 4
    assert len(batches([100] * 10, 64, 300)) == 4
    assert batches([], 64, 100) == []


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("abc", 1), ("连接池", 3), ("🚀", 2), ("a\udc80", 1)]
)
def test_estimate(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://localhost:11434/v1", True),
        ("http://LOCALHOST./v1", True),
        ("http://ollama.localhost/v1", True),
        ("http://127.0.0.1:8000/v1", True),
        ("http://127.9.9.9/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://0.0.0.0:8000/v1", True),
        ("http://192.168.1.5:8000/v1", False),
        ("https://api.openai.com/v1", False),
        ("http://localhost.example.com/v1", False),
        ("http://127.0.0.1.example.com/v1", False),
        ("http://[::2]/v1", False),
    ],
)
def test_what_stays_on_this_machine(url: str, here: bool) -> None:
    assert is_loopback(url) is here


def test_other_vectors_have_another_identity() -> None:
    url = "http://localhost:1/v1"
    names = [
        OpenAIEmbedder("m", url).model,
        OpenAIEmbedder("m", url, name="jina").model,
        OpenAIEmbedder("m", url, dimension=256, ask_dimension=True).model,
        OpenAIEmbedder("m", url, passage_prefix="passage: ").model,
    ]
    assert names[:3] == ["openai/m", "jina/m", "openai/m@256"]
    assert names[3].startswith("openai/m#")
    # A known length that is the model's own, and the words before a question, change nothing.
    assert OpenAIEmbedder("m", url, dimension=256, query_prefix="query: ").model == "openai/m"
