from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsearch.sources.private import strip_private


@pytest.mark.parametrize(
    ("text", "rest", "found"),
    [
        ("", "", False),
        ("a private matter", "a private matter", False),
        ("a <private>b</private> c", "a  c", True),
        ("<private></private>", "", True),
        ("a <private>b", "a ", True),
        ("a <private>b</private> c <private>d", "a  c ", True),
        ("<private>a<private>b</private>c</private>d", "d", True),
        ("<private>a<private>b</private>c", "", True),
        ("a</private>b", "a</private>b", False),
        ("a</private><private>b</private>c", "a</private>c", True),
        ("<PRIVATE>a</pRiVaTe>b", "b", True),
        ('<private reason="x y">a</private>b', "b", True),
        ("<private\n>a</private\n>b", "b", True),
        ("<private>中文</private>文", "文", True),
        ("<privately>a</privately>", "<privately>a</privately>", False),
        ("List<private x", "List<private x", False),
    ],
)
def test_what_is_left(text: str, rest: str, found: bool) -> None:
    assert strip_private(text) == (rest, found)


parts = st.lists(st.sampled_from(["<private>", "</private>", "S", "a", "\n"]), max_size=20)


@given(parts)
def test_nothing_inside_is_left(pieces: list[str]) -> None:
    depth = 0
    kept = []
    for piece in pieces:
        if piece == "<private>":
            depth += 1
        elif piece == "</private>" and depth:
            depth -= 1
        elif not depth:
            kept.append(piece)
    assert strip_private("".join(pieces))[0] == "".join(kept)


@pytest.mark.parametrize("piece", ["<private", "<private ", "</private", "<private>", "<private x"])
def test_a_megabyte_of_tags_takes_linear_time(piece: str) -> None:
    # With a pattern that looks for the end of each tag this takes minutes.
    strip_private(piece * 100_000)
