from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsearch.sources.bounds import (
    MAX_INPUT_CHARS,
    MAX_VALUE_CHARS,
    compact_input,
    trim,
    well_formed,
)

WHOLE = frozenset({"command"})


@given(st.text(max_size=500), st.integers(1, 400), st.integers(0, 10**7))
def test_a_trimmed_text_is_within_its_limit_and_counts_right(
    text: str, limit: int, left_out: int
) -> None:
    short, missing = trim(text, limit, left_out=left_out)
    assert len(short) <= limit
    if len(text) <= limit:
        assert (short, missing) == (text, left_out)
    elif "\n… [" in short and limit >= 200:
        head, _, rest = short.partition(f"\n… [{missing} characters left out] …\n")
        assert text.startswith(head)
        assert text.endswith(rest)
        assert len(head) + len(rest) + missing == len(text) + left_out
    else:
        assert len(short) - 1 + missing == len(text) + left_out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("中文 🎉", "中文 🎉"),
        ("\ud83c\udf89", "🎉"),
        ("a\ud83c", "a�"),
        ("\udf89a", "�a"),
    ],
)
def test_halves_of_surrogate_pairs(text: str, expected: str) -> None:
    assert well_formed(text) == expected


@given(st.text(alphabet=st.characters(codec=None)))
def test_any_text_can_be_written(text: str) -> None:
    well_formed(text).encode("utf-8")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"path": "a.py", "all": True, "n": 3}, '{"path": "a.py", "all": true, "n": 3}'),
        ({"n": 10**40 - 1}, f'{{"n": {10**40 - 1}}}'),
        ({"n": -(10**40)}, '{"n": "(a very long number)"}'),
        ({"n": 10**5000}, '{"n": "(a very long number)"}'),  # Python writes no such number
        (list(range(40)), str(list(range(40)))),
        (list(range(42)), str([*range(40), "… 2 more"]).replace("'", '"')),
        ([[[[[["deep"]]]]]], '[[[[[["deep"]]]]]]'),
        ([[[[[[["deeper"]]]]]]], '[[[[[["[…]"]]]]]]'),
        ([[[[[[{"a": 1}]]]]]], '[[[[[["{…}"]]]]]]'),
    ],
)
def test_a_tool_s_input(value: object, text: str) -> None:
    assert compact_input(value, str, frozenset()) == text


def test_a_tool_s_input_is_shortened_and_its_command_is_not() -> None:
    command = "run " * 2_000
    kept = json.loads(compact_input({"command": command, "why": "x" * 5_000}, str, WHOLE))
    assert kept["command"] == command
    assert len(kept["why"]) <= MAX_VALUE_CHARS
    many = {f"key {n}": n for n in range(45)}
    kept = json.loads(compact_input(many, str, WHOLE))
    assert len(kept) == 41
    assert kept["…"] == "5 more"
    assert len(compact_input(["y" * 5_000] * 40, str, WHOLE)) <= MAX_INPUT_CHARS
