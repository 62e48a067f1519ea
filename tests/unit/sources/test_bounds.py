from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsearch.sources.bounds import trim, well_formed


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
